# Two services that talk through Consul's service mesh (docs/mesh.md). Each has a proxy beside its task, and the proxies
# talk over mTLS. The node needs a Consul agent ("consul agent -dev" is enough), envoy or consul in the PATH of the agent
# of berth, the plugins of CNI and iptables. Consul's intentions decide who may talk to whom:
#
#     consul intention create -deny web api
#     consul intention delete web api
job "connect" {
  group "api" {
    network {
      mode = "bridge"
    }

    service {
      name = "api"
      port = "9001"

      connect {
        sidecar_service {}
      }
    }

    task "server" {
      driver = "exec"

      config {
        command = "/usr/bin/perl"
        args    = ["/local/server"]
      }

      # It listens on the loopback interface of its allocation: nobody reaches it but its proxy.
      template {
        destination = "local/server"
        data        = <<-EOT
          use IO::Socket::INET;
          my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 9001, Listen => 9, ReuseAddr => 1)
            or die $!;
          while (my $c = $l->accept) {
            1 while defined(my $line = <$c>) && $line =~ /\S/;
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
  }

  group "web" {
    network {
      mode = "bridge"
    }

    service {
      name = "web"
      port = "9002"

      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "api"
              local_bind_port  = 9191
            }
          }
        }
      }
    }

    task "client" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while sleep 1; do curl -sS -m 5 http://$NOMAD_UPSTREAM_ADDR_api/ 2>&1; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
