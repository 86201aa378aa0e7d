"""The console: pages for the people who run a migration, at /console/.

It is a separate application within the service, because browsers and cookies need other rules than the
interface. Its views call the same services as the command line and have no logic of their own.

    application                   puts it together
    access, views                 who may do what: every view is in the table of `views`
    acting                        the common part of all forms that change something
    lists, counting               pages of lists and their files, and numbers that take long to count
    languages, display, masking   how values become text
    pages                         the views
"""
