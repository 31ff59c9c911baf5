# The configuration of the berth agent, as the package installs it: one server and one node, which only this machine
# reaches. All .hcl files of this directory count, in the order of their names. An upgrade keeps your changes.
#
# Next steps on one machine, as root:
#
#     berth doctor                      # checks the machine, and names the next step of each fault
#     systemctl enable --now berth      # starts the agent
#     berth node status                 # its node is ready after some seconds
#
# To begin a cluster on this machine, in which others join (see "Five machines" in /usr/share/doc/berth/README.md):
#
#     1. Set bind_addr below to the address of this machine, and remove the block "client" if it is only a server.
#        Then take the unit berth-server instead of berth here: its agent does not run as root.
#     2. berth tls init -key-saved      # certificates and keys in this directory; keep a copy of the file keyring
#     3. systemctl restart berth
#     4. berth server join-token create; berth node join-token create
#
# To make this machine a server or a node of a cluster instead:
#
#     1. Remove both blocks below, and set bind_addr to the address of this machine.
#     2. Write into /etc/default/berth, with mode 0600:
#            BERTH_ARGS=-join 10.0.0.1:4747
#            BERTH_JOIN_TOKEN=the token
#     3. systemctl enable --now berth   # it gets its certificate, and writes tls.hcl beside this file
#     4. Remove the token from /etc/default/berth: it is used up.

data_dir = "/var/lib/berth"

# The agent listens on loopback alone. On another address it requires TLS, or tls { mode = "off" } for a network that
# you trust as a whole.
bind_addr = "127.0.0.1"

server {
  enabled          = true
  bootstrap_expect = 1
}

client {
  enabled = true
}
