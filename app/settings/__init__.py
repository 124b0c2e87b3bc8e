"""Settings: read once from the environment into one frozen object."""

from app.settings.settings import Settings, SettingsError, load_settings, require_delivery, switched_off

__all__ = ["Settings", "SettingsError", "load_settings", "require_delivery", "switched_off"]
