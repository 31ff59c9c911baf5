# The configuration of the agent in the container image: one server that only its own container reaches. Mount a
# directory on /etc/berth to replace it. A node mounts file systems and starts tasks, so install it from a package.
data_dir  = "/var/lib/berth"
bind_addr = "127.0.0.1"

server {
  enabled          = true
  bootstrap_expect = 1
}
