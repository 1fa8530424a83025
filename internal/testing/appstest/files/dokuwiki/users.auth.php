{{user}}:{{hash}}:Alice:alice@example.org:admin,user
