"""Supply addresses with their meter points and everything that applies to them for a period (section 2.3)."""

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.vocabulary import (
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

    historical_contract_number = fields.NormalIdentifier(
        "Number of the contract with the supplier.", "C-100000038-E1", identifying=True
    )
    historical_contract_pdf_path = fields.DocumentPath(
        "Path of the contract's PDF below the supplier's document root.",
        "contracts/2020/C-100000038-E1.pdf",
        identifying=True,
    )


class CostDetailSchema(Fields):
    """One band of a monthly advance, in euros."""

    band = fields.OpenChoice(
        Band, "The thing that this part of the advance is for.", "ADVANCE_GRID_FEE", required=True
    )
    net_amount = fields.Number(
        "The amount of this part.", 21.35, required=True, unit="in euros a month, without tax"
    )
    tax_amount = fields.Number("The tax on this part.", 4.48, unit="in euros a month")
    tax_rate = fields.Number("The rate of the tax.", 0.21, unit="as a proportion from 0 to 1: 0.21 is 21 %")


class MonthlyAdvanceChargeTemplateSchema(Fields):
    """The monthly advance."""

    total_monthly_advance_amount = fields.NumberText(
        "The amount that the customer pays in advance each month.",
        "100.13",
        required=True,
        unit="in euros, tax included; zero or negative if more is generated than consumed",
    )
    forecast_annual_consumption = fields.NumberText(
        "The expected consumption of a year.", "2575", unit="in forecast_consumption_units; not negative"
    )
    forecast_consumption_units = fields.Choice(
        Units,
        "Unit of the consumption: KWH_CONSUMPION (spelled so) for electricity, "
        "CUBIC_METRES_CONSUMPTION for gas.",
        "KWH_CONSUMPION",
    )
    forecast_annual_generation = fields.NumberText(
        "The expected generation of a year.", "0", unit="in forecast_generation_units; not negative"
    )
    forecast_generation_units = fields.Choice(Units, "Unit of the generation.", "KWH_CONSUMPION")
    cost_details = fields.Objects(
        CostDetailSchema, "The parts of the advance.", [{"band": "ADVANCE_GRID_FEE", "net_amount": 21.35}]
    )


class AgreementSchema(Fields):
    """A contract for a meter point."""

    supply_type = fields.Choice(
        SupplyType, "The energy that is supplied, as for the meter point.", "ELECTRICITY", required=True
    )
    effective_from = fields.Day(
        "First day of the agreement. It ends when the next one starts.",
        "2020-01-19",
        required=True,
        personal=False,
    )
    agreed_at = fields.Day("The day on which the customer agreed.", "2019-12-26", personal=False)
    tariff_code = fields.NormalIdentifier(
        "The supplier's code of the tariff.", "NL-E-VARIABLE", required=True, personal=False
    )
    params = fields.Object(
        AgreementParamsSchema,
        "The contract that the customer had.",
        {"historical_contract_number": "C-100000038-E1"},
    )
    monthly_advance_charge_template = fields.Object(
        MonthlyAdvanceChargeTemplateSchema, "The monthly advance.", {"total_monthly_advance_amount": "100.13"}
    )


class RegisterSchema(Fields):
    """A counter of a meter."""

    register_id = fields.NormalIdentifier(
        "The register's identifier, unique within the meter.", "1.8.1", required=True, personal=False
    )
    metering_direction = fields.Code("The direction that the register counts.", "CONSUMPTION")
    multiplication_factor = fields.WholeNumber("The factor by which readings are multiplied, at least 1.", 1)
    number_of_digits = fields.WholeNumber("Digits of a reading before the decimal point, at least 1.", 6)
    time_of_use = fields.OpenChoice(TimeOfUse, "When the register counts. A gas register has none.", "PEAK")


class MeterSchema(Fields):
    """A meter at a meter point."""

    meter_id = fields.NormalIdentifier(
        "The number on the meter.", "E3650120601576", required=True, identifying=True
    )
    type = fields.Code("The kind of meter.", "SMART")
    smart_meter_technical_communication = fields.Code("Whether the meter can be read remotely.", "ON")
    active_from = fields.Day("The day on which the meter was installed.", "2017-03-29", personal=False)
    registers = fields.Objects(RegisterSchema, "The counters of the meter.", [{"register_id": "1.8.1"}])


class ConfigurationPeriodSchema(Fields):
    """The configuration of a meter point from a date on."""

    allocation_method = fields.Code("How consumption is allocated.", "SMART")
    energy_delivery_status = fields.Code("Whether energy is delivered.", "ACTIVE")
    energy_flow_direction = fields.Code("Which way energy flows.", "CONSUMPTION")
    metering_method = fields.Code("How often the meter point is read.", "MONTHLY")
    physical_status = fields.Code("Whether the connection is in operation.", "IN_OPERATION")
    profile_category = fields.NormalIdentifier("The consumption profile.", "E1A", personal=False)
    physical_capacity = fields.Number(
        "Capacity of the connection.",
        24.15,
        unit="in kW for electricity, in m³ an hour for gas; not negative",
    )
    cap_tar_code = fields.NormalIdentifier(
        "Code of the capacity tariff: 13 digits.", "8742010103129", personal=False
    )
    start_date = fields.Day(
        "First day of the period. It ends when the next one starts.",
        "2020-01-19",
        required=True,
        personal=False,
    )


class GridOperatorEffectivePeriodSchema(Fields):
    """The grid operator of a meter point from a date on."""

    grid_operator_code = fields.NormalIdentifier(
        "GLN of the grid operator: 13 digits.", "8712423014022", required=True, personal=False
    )
    start_date = fields.Day(
        "First day of the period. It ends when the next one starts.",
        "2020-01-19",
        required=True,
        personal=False,
    )


class BillingConfigurationPeriodSchema(Fields):
    """The taxation of a meter point in a period. The last period has no end_date."""

    residency_status = fields.Choice(
        ResidencyStatus, "Whether somebody lives at the address. Absent for gas.", "RESIDENT"
    )
    energy_tax_exception = fields.Choice(EnergyTaxException, "Which energy tax applies.", "NO_EXCEPTION")
    start_date = fields.Day("First day of the period.", "2020-01-19", required=True, personal=False)
    end_date = fields.Day(
        "The day on which the period ends and the next one starts. The last period has none.",
        "2024-01-01",
        personal=False,
    )


class EstimatedAnnualVolumeSchema(Fields):
    """The expected consumption or generation of a year."""

    direction = fields.Choice(
        Direction, "Whether energy is consumed or generated.", "CONSUMPTION", required=True
    )
    energy_netted_peak = fields.Number("Energy in peak hours.", 1624, unit="in kWh a year; not negative")
    energy_netted_off_peak = fields.Number(
        "Energy in off-peak hours.", 951, unit="in kWh a year; not negative"
    )
    start_at = fields.LocalMoment(
        "Start of the estimate, in local time without a zone.", "2020-01-19T00:00:00", required=True
    )
    end_at = fields.LocalMoment(
        "End of the estimate, in local time without a zone. Null or absent if it is still valid.",
        None,
        allow_none=True,
    )


class MeterPointSchema(Fields):
    """A connection to a grid."""

    ean = fields.Ean(
        "The connection's number: 18 digits, the last a check digit.",
        "871694330222747339",
        required=True,
        identifying=True,
    )
    agreements = fields.Objects(
        AgreementSchema,
        "The contracts for the meter point.",
        [{"supply_type": "ELECTRICITY", "effective_from": "2020-01-19", "tariff_code": "NL-E-VARIABLE"}],
    )
    last_billed_to_date = fields.Day("Last day that was billed.", "2026-02-28", personal=False)
    supply_start_date = fields.Day("First day of the supply.", "2020-01-19", personal=False)
    supply_type = fields.Choice(
        SupplyType, "The energy that is supplied. One EAN may have both kinds.", "ELECTRICITY", required=True
    )
    smart_meter_administrative_status = fields.Code("Whether the smart meter may be read remotely.", "ON")
    market_segment = fields.Code("The market that the meter point belongs to.", "RETAIL")
    location_description = fields.Text(
        "The location of the meter. May be empty.", "Cellar", blank=True, max_length=1_000, personal=True
    )
    meters = fields.Objects(MeterSchema, "The meters that are installed.", [{"meter_id": "E3650120601576"}])
    energy_meter_point_configuration_periods = fields.Objects(
        ConfigurationPeriodSchema,
        "The configurations of the meter point, by date.",
        [{"start_date": "2020-01-19"}],
    )
    energy_meter_point_grid_operator_effective_periods = fields.Objects(
        GridOperatorEffectivePeriodSchema,
        "Its grid operators, by date.",
        [{"grid_operator_code": "8712423014022", "start_date": "2020-01-19"}],
    )
    billing_configuration_periods = fields.Objects(
        BillingConfigurationPeriodSchema,
        "The taxation of the meter point, by date.",
        [{"start_date": "2020-01-19"}],
    )
    estimated_annual_volumes = fields.Objects(
        EstimatedAnnualVolumeSchema,
        "The expected consumption and generation of a year.",
        [{"direction": "CONSUMPTION", "start_at": "2020-01-19T00:00:00"}],
    )


def address_line(meaning: str, example: str) -> fields.Text:
    """Return a line of an address."""
    return fields.Text(meaning, example, blank=True, personal=True)


def postcode(of: str) -> fields.Text:
    """Return the postcode of an address."""
    text = f"Postcode of the {of}. A Dutch one is expected."
    return fields.Text(text, "5018 NJ", blank=True, max_length=32, personal=True)


class SupplyAddressSchema(Fields):
    """An address to which energy is supplied."""

    supply_address1 = address_line("First line of the address: the street.", "Leeuweriklaan")
    supply_address2 = address_line("Second line: house number and addition.", "106")
    supply_address3 = address_line("Third line, for example a building.", "")
    supply_address4 = address_line("Fourth line: the town.", "Tilburg")
    supply_postcode = postcode("address")
    customer_at_supply_address_from_date = fields.Day(
        "The day on which the customer moved in.", "2020-01-19", personal=False
    )
    meter_points = fields.Objects(
        MeterPointSchema,
        "The connections at the address.",
        [{"ean": "871694330222747339", "supply_type": "ELECTRICITY"}],
    )
