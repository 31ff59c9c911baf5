# Two tasks in a network of their own. They reach each other on the loopback interface, and others reach the server
# through the port of the node (berth alloc status shows its address). The node needs the plugins of CNI and iptables:
# see docs/operations/networks.md.
job "network" {
  group "web" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    task "server" {
      driver = "exec"

      config {
        command = "/usr/bin/perl"
        args    = ["/local/server"]
      }

      template {
        destination = "local/server"
        data        = <<-EOT
          use IO::Socket::INET;
          my $l = IO::Socket::INET->new(LocalPort => 8080, Listen => 9, ReuseAddr => 1) or die $!;
          while (my $c = $l->accept) {
            print $c "HTTP/1.0 200 OK\r\n\r\nhello from $ENV{BERTH_ALLOC_ID}\n";
            close $c;
          }
        EOT
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    task "client" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while sleep 1; do curl -s http://127.0.0.1:$NOMAD_PORT_http/; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
