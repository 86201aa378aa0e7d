"""blueprints"""
