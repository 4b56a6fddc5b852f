"""Users, roles and grants: who may do what.

* ``grant``: a right on the objects of one kind whose names match a pattern
* ``role``: named sets of grants, and the built-in roles
* ``user``: the stored row of a user
* ``user_limits``: the limits of a user, and their errors
* ``users``: all users and roles, and the access of each user
* ``bindings``: the users that are bound to queue managers
* ``access``: the rights of one user, decided once for each object
* ``rights``: decides about the objects that names reach
* ``origin``: the other end of a connection, before its login
* ``rule``: the ordered rules that decide how a connection may log in
* ``certificate``: the user of a client's certificate
* ``token``: the verification and the user of a token (JWT)
* ``login``: the login of one connection
* ``token_renewal``: the tokens of an open connection
* ``login_delays``: delays after failed logins
"""
