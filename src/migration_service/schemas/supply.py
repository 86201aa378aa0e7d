"""Supply addresses with their meter points and all that is dated on them (section 2.3)."""

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import (
    Choice,
    Code,
    Day,
    DocumentPath,
    Ean,
    Identifier,
    LocalMoment,
    Number,
    NumberText,
    Object,
    Objects,
    Text,
    WholeNumber,
)
from migration_service.schemas.vocabulary import (
    Band,
    Direction,
    EnergyTaxException,
    ResidencyStatus,
    SupplyType,
    TimeOfUse,
    Units,
)


class AgreementParamsSchema(Fields):
    """The contract that the customer had with the supplier."""

    historical_contract_number = Identifier()
    historical_contract_pdf_path = DocumentPath()


class CostDetailSchema(Fields):
    """One band of a monthly advance, in euros."""

    band = Choice(Band, required=True)
    net_amount = Number(required=True)
    tax_amount = Number()
    tax_rate = Number()


class MonthlyAdvanceChargeTemplateSchema(Fields):
    """What is charged in advance each month."""

    total_monthly_advance_amount = NumberText(required=True)
    forecast_annual_consumption = NumberText()
    forecast_consumption_units = Choice(Units)
    forecast_annual_generation = NumberText()
    forecast_generation_units = Choice(Units)
    cost_details = Objects(CostDetailSchema)


class AgreementSchema(Fields):
    """A contract for a meter point."""

    supply_type = Choice(SupplyType, required=True)
    effective_from = Day(required=True)
    agreed_at = Day()
    tariff_code = Identifier(required=True)
    params = Object(AgreementParamsSchema)
    monthly_advance_charge_template = Object(MonthlyAdvanceChargeTemplateSchema)


class RegisterSchema(Fields):
    """A counter of a meter."""

    register_id = Identifier(required=True)
    metering_direction = Code(metadata={"example": "CONSUMPTION"})
    multiplication_factor = WholeNumber()
    number_of_digits = WholeNumber()
    time_of_use = Choice(TimeOfUse)


class MeterSchema(Fields):
    """A meter at a meter point."""

    meter_id = Identifier(required=True)
    type = Code(metadata={"example": "SMART"})
    smart_meter_technical_communication = Code(metadata={"example": "ON"})
    active_from = Day()
    registers = Objects(RegisterSchema)


class ConfigurationPeriodSchema(Fields):
    """How a meter point is set up and measured from a date on."""

    allocation_method = Code(metadata={"example": "SMART"})
    energy_delivery_status = Code(metadata={"example": "ACTIVE"})
    energy_flow_direction = Code(metadata={"example": "CONSUMPTION"})
    metering_method = Code(metadata={"example": "MONTHLY"})
    physical_status = Code(metadata={"example": "IN_OPERATION"})
    profile_category = Identifier(metadata={"example": "E1A"})
    physical_capacity = Number()
    cap_tar_code = Identifier()
    start_date = Day(required=True)


class GridOperatorEffectivePeriodSchema(Fields):
    """Which grid operator a meter point belongs to from a date on."""

    grid_operator_code = Identifier(required=True)
    start_date = Day(required=True)


class BillingConfigurationPeriodSchema(Fields):
    """How a meter point is taxed in a period. The open-ended period has no end_date."""

    residency_status = Choice(ResidencyStatus)
    energy_tax_exception = Choice(EnergyTaxException)
    start_date = Day(required=True)
    end_date = Day()


class EstimatedAnnualVolumeSchema(Fields):
    """What is expected to be used or produced in a year."""

    direction = Choice(Direction, required=True)
    energy_netted_peak = Number()
    energy_netted_off_peak = Number()
    start_at = LocalMoment(required=True)
    end_at = LocalMoment(allow_none=True)


class MeterPointSchema(Fields):
    """A connection to a grid."""

    ean = Ean(required=True)
    agreements = Objects(AgreementSchema)
    last_billed_to_date = Day()
    supply_start_date = Day()
    supply_type = Choice(SupplyType, required=True)
    smart_meter_administrative_status = Code(metadata={"example": "ON"})
    market_segment = Code(metadata={"example": "RETAIL"})
    location_description = Text(blank=True, max_length=1_000)
    meters = Objects(MeterSchema)
    energy_meter_point_configuration_periods = Objects(ConfigurationPeriodSchema)
    energy_meter_point_grid_operator_effective_periods = Objects(GridOperatorEffectivePeriodSchema)
    billing_configuration_periods = Objects(BillingConfigurationPeriodSchema)
    estimated_annual_volumes = Objects(EstimatedAnnualVolumeSchema)


class SupplyAddressSchema(Fields):
    """An address that energy is supplied to."""

    supply_address1 = Text(blank=True)
    supply_address2 = Text(blank=True)
    supply_address3 = Text(blank=True)
    supply_address4 = Text(blank=True)
    supply_postcode = Text(blank=True, max_length=32)
    customer_at_supply_address_from_date = Day()
    meter_points = Objects(MeterPointSchema)
