"""The console: pages for the people who run a migration, at /console/.

It is a separate application within the service, because browsers and cookies need other rules than the
interface. Its views call the same services as the command line and have no logic of their own.

    application   puts it together access        who may do what: every view is in its table login, openid how
    an operator logs in acting        the common part of all forms that change something languages, display,
    masking    how values become text
"""
