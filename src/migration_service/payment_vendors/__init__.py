"""payment_vendors"""
