from flask import Blueprint

blueprint = Blueprint("graphql", __name__)
