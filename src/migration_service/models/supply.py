"""Supply addresses, meter points, and their data for certain periods."""

from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import DateTime
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.models.account import Account
from migration_service.models.part import Part, Source, document_location, number_text, parent_key, value_at


class SupplyAddress(Part):
    """An address to which energy is supplied."""

    __tablename__ = "supply_address"
    sources = (Source(Account, "supply_addresses"),)

    account_pk: Mapped[int] = parent_key(Account)
    supply_address1: Mapped[str | None]
    supply_address2: Mapped[str | None]
    supply_address3: Mapped[str | None]
    supply_address4: Mapped[str | None]
    supply_postcode: Mapped[str | None]
    customer_at_supply_address_from_date: Mapped[date | None]


class MeterPoint(Part):
    """A connection to a grid. One EAN can carry both fuels: (ean, supply_type) identifies it."""

    __tablename__ = "meter_point"
    sources = (Source(SupplyAddress, "meter_points"),)

    supply_address_pk: Mapped[int] = parent_key(SupplyAddress)
    ean: Mapped[str]
    supply_type: Mapped[str]
    last_billed_to_date: Mapped[date | None]
    supply_start_date: Mapped[date | None]
    smart_meter_administrative_status: Mapped[str | None]
    market_segment: Mapped[str | None]
    location_description: Mapped[str | None]


class Agreement(Part):
    """A contract for a meter point."""

    __tablename__ = "agreement"
    sources = (Source(MeterPoint, "agreements"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    supply_type: Mapped[str]
    effective_from: Mapped[date]
    agreed_at: Mapped[date | None]
    tariff_code: Mapped[str]
    historical_contract_number: Mapped[str | None] = value_at("params", "historical_contract_number")
    historical_contract_pdf_path: Mapped[str | None] = value_at("params", "historical_contract_pdf_path")
    historical_contract_pdf_location: Mapped[str | None] = document_location(
        "params", "historical_contract_pdf_path"
    )


class MonthlyAdvanceChargeTemplate(Part):
    """The advance charge for each month of an agreement."""

    __tablename__ = "monthly_advance_charge_template"
    sources = (Source(Agreement, "monthly_advance_charge_template", single=True),)

    agreement_pk: Mapped[int] = parent_key(Agreement)
    total_monthly_advance_amount: Mapped[Decimal] = number_text()
    forecast_annual_consumption: Mapped[Decimal | None] = number_text()
    forecast_consumption_units: Mapped[str | None]
    forecast_annual_generation: Mapped[Decimal | None] = number_text()
    forecast_generation_units: Mapped[str | None]


class CostDetail(Part):
    """One band of a monthly advance."""

    __tablename__ = "cost_detail"
    sources = (Source(MonthlyAdvanceChargeTemplate, "cost_details"),)

    monthly_advance_charge_template_pk: Mapped[int] = parent_key(MonthlyAdvanceChargeTemplate)
    band: Mapped[str]
    net_amount: Mapped[Decimal]
    tax_amount: Mapped[Decimal | None]
    tax_rate: Mapped[Decimal | None]


class Meter(Part):
    """A meter at a meter point."""

    __tablename__ = "meter"
    sources = (Source(MeterPoint, "meters"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    meter_id: Mapped[str]
    type: Mapped[str | None]
    smart_meter_technical_communication: Mapped[str | None]
    active_from: Mapped[date | None]


class Register(Part):
    """A counter of a meter."""

    __tablename__ = "register"
    sources = (Source(Meter, "registers"),)

    meter_pk: Mapped[int] = parent_key(Meter)
    register_id: Mapped[str]
    metering_direction: Mapped[str | None]
    multiplication_factor: Mapped[int | None]
    number_of_digits: Mapped[int | None]
    time_of_use: Mapped[str | None]


class ConfigurationPeriod(Part):
    """The set-up and measurement of a meter point, starting on a date."""

    __tablename__ = "energy_meter_point_configuration_period"
    sources = (Source(MeterPoint, "energy_meter_point_configuration_periods"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    allocation_method: Mapped[str | None]
    energy_delivery_status: Mapped[str | None]
    energy_flow_direction: Mapped[str | None]
    metering_method: Mapped[str | None]
    physical_status: Mapped[str | None]
    profile_category: Mapped[str | None]
    physical_capacity: Mapped[Decimal | None]
    cap_tar_code: Mapped[str | None]
    start_date: Mapped[date]


class GridOperatorEffectivePeriod(Part):
    """The grid operator of a meter point, starting on a date."""

    __tablename__ = "energy_meter_point_grid_operator_effective_period"
    sources = (Source(MeterPoint, "energy_meter_point_grid_operator_effective_periods"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    grid_operator_code: Mapped[str]
    start_date: Mapped[date]


class BillingConfigurationPeriod(Part):
    """The taxation of a meter point in a period. The last period is open."""

    __tablename__ = "billing_configuration_period"
    sources = (Source(MeterPoint, "billing_configuration_periods"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    residency_status: Mapped[str | None]
    energy_tax_exception: Mapped[str | None]
    start_date: Mapped[date]
    end_date: Mapped[date | None]


class EstimatedAnnualVolume(Part):
    """The expected annual consumption or production of a meter point. Times are local, without a zone."""

    __tablename__ = "estimated_annual_volume"
    sources = (Source(MeterPoint, "estimated_annual_volumes"),)

    meter_point_pk: Mapped[int] = parent_key(MeterPoint)
    direction: Mapped[str]
    energy_netted_peak: Mapped[Decimal | None]
    energy_netted_off_peak: Mapped[Decimal | None]
    start_at: Mapped[datetime] = mapped_column(DateTime(timezone=False))
    end_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=False))
