"""The closed lists of the specification, in its spelling."""

from enum import StrEnum


class SupplyType(StrEnum):
    """The energy that a meter point supplies (section 2.3)."""

    ELECTRICITY = "ELECTRICITY"
    GAS = "GAS"


class Units(StrEnum):
    """Units of forecasts (section 2.3). The interface spells the first one this way."""

    KWH_CONSUMPION = "KWH_CONSUMPION"
    CUBIC_METRES_CONSUMPTION = "CUBIC_METRES_CONSUMPTION"


class Band(StrEnum):
    """Bands of a monthly advance (section 2.3)."""

    ADVANCE_SUPPLIER_DYNAMIC_COST = "ADVANCE_SUPPLIER_DYNAMIC_COST"
    ADVANCE_SUPPLIER_PURCHASING_COST = "ADVANCE_SUPPLIER_PURCHASING_COST"
    ADVANCE_SUPPLIER_FIXED_COST = "ADVANCE_SUPPLIER_FIXED_COST"
    ADVANCE_GRID_FEE = "ADVANCE_GRID_FEE"
    ADVANCE_ENERGY_TAX_STEP_1 = "ADVANCE_ENERGY_TAX_STEP_1"
    ADVANCE_ENERGY_TAX_STEP_2 = "ADVANCE_ENERGY_TAX_STEP_2"
    ADVANCE_ENERGY_TAX_STEP_3 = "ADVANCE_ENERGY_TAX_STEP_3"
    ADVANCE_ENERGY_TAX_STEP_4 = "ADVANCE_ENERGY_TAX_STEP_4"
    ADVANCE_ENERGY_TAX_STEP_5 = "ADVANCE_ENERGY_TAX_STEP_5"


class RateBand(StrEnum):
    """Bands of line items (section 2.5): those of advances and two more."""

    ADVANCE_SUPPLIER_DYNAMIC_COST = "ADVANCE_SUPPLIER_DYNAMIC_COST"
    ADVANCE_SUPPLIER_PURCHASING_COST = "ADVANCE_SUPPLIER_PURCHASING_COST"
    ADVANCE_SUPPLIER_FIXED_COST = "ADVANCE_SUPPLIER_FIXED_COST"
    ADVANCE_GRID_FEE = "ADVANCE_GRID_FEE"
    ADVANCE_ENERGY_TAX_STEP_1 = "ADVANCE_ENERGY_TAX_STEP_1"
    ADVANCE_ENERGY_TAX_STEP_2 = "ADVANCE_ENERGY_TAX_STEP_2"
    ADVANCE_ENERGY_TAX_STEP_3 = "ADVANCE_ENERGY_TAX_STEP_3"
    ADVANCE_ENERGY_TAX_STEP_4 = "ADVANCE_ENERGY_TAX_STEP_4"
    ADVANCE_ENERGY_TAX_STEP_5 = "ADVANCE_ENERGY_TAX_STEP_5"
    ADVANCE_ENERGY_TAX_REDUCTION = "ADVANCE_ENERGY_TAX_REDUCTION"
    CONSUMPTION_STANDARD = "CONSUMPTION_STANDARD"


class TimeOfUse(StrEnum):
    """The hours in which a register counts (section 2.3)."""

    OFF_PEAK = "OFF_PEAK"
    PEAK = "PEAK"


class ResidencyStatus(StrEnum):
    """Whether somebody lives at the meter point (section 2.3)."""

    RESIDENT = "RESIDENT"
    NON_RESIDENT = "NON_RESIDENT"


class EnergyTaxException(StrEnum):
    """The energy tax that applies (section 2.3)."""

    BUSINESS = "BUSINESS"
    NO_EXCEPTION = "NO_EXCEPTION"


class Direction(StrEnum):
    """The direction of an estimated volume (section 2.3)."""

    CONSUMPTION = "CONSUMPTION"
    PRODUCTION = "PRODUCTION"


class TransactionType(StrEnum):
    """Kinds of financial transaction (section 2.5)."""

    CHARGE = "CHARGE"
    CREDIT = "CREDIT"
    PAYMENT = "PAYMENT"
    REPAYMENT = "REPAYMENT"
    SUPPLY_CHARGE = "SUPPLY_CHARGE"


class Reason(StrEnum):
    """The reason of a transaction (section 2.5)."""

    IMPORTED_CHARGE = "IMPORTED_CHARGE"
    IMPORTED_CREDIT = "IMPORTED_CREDIT"
    ACCOUNT_CHARGE_PAYMENT = "ACCOUNT_CHARGE_PAYMENT"
    FULL_CREDIT_REFUND = "FULL_CREDIT_REFUND"
    GENERAL_CREDIT = "GENERAL_CREDIT"


class PaymentType(StrEnum):
    """The means of a payment (section 2.5)."""

    DD_REGULAR_COLLECTION = "DD_REGULAR_COLLECTION"
    DIRECT_CREDIT = "DIRECT_CREDIT"
    DEBIT_CARD = "DEBIT_CARD"
