package jobspec

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// sidecarInHCL has each block and argument of a sidecar.
const sidecarInHCL = `job "j" {
  group "g" {
    network {
      mode = "bridge"
      port "health" {}
    }
    volume "data" {
      type   = "host"
      source = "data"
    }
    service {
      name = "web"
      port = 9001
      connect {
        sidecar_service {
          tags                      = ["a"]
          port                      = "mesh"
          disable_default_tcp_check = true
          meta {
            k = "v"
          }
          proxy {
            local_service_address = "127.0.0.2"
            local_service_port    = 9002
            upstreams {
              destination_name = "api"
              destination_type = "service"
              destination_peer = "p"
              datacenter       = "dc2"
              local_bind_port  = 8080
              local_bind_address = "127.0.0.3"
              mesh_gateway {
                mode = "local"
              }
              config {
                protocol = "http"
              }
            }
            upstreams {
              destination_name       = "db"
              destination_namespace  = "default"
              local_bind_socket_path = "/alloc/db.sock"
              local_bind_socket_mode = "0600"
            }
            expose {
              path {
                path            = "/up"
                protocol        = "http2"
                local_path_port = 9001
                listener_port   = "health"
              }
            }
            config {
              max_inbound_connections = 5
            }
          }
        }
        sidecar_task {
          name     = "proxy"
          driver   = "exec"
          user     = "nobody"
          kill_timeout   = "4s"
          shutdown_delay = "3s"
          kill_signal    = "SIGINT"
          config {
            command = "/proxy"
          }
          env {
            A = "b"
          }
          meta {
            c = "d"
          }
          resources {
            cpu    = 50
            memory = 60
          }
          logs {
            max_files     = 3
            max_file_size = 4
          }
          volume_mount {
            volume      = "data"
            destination = "/data"
            read_only   = true
          }
        }
      }
    }
    task "web" {
      driver = "exec"
    }
  }
}
`

const sidecarInJSON = `{"job": {"j": {"group": {"g": {
  "network": {"mode": "bridge", "port": {"health": {}}},
  "volume": {"data": {"type": "host", "source": "data"}},
  "service": {"name": "web", "port": 9001, "connect": {
    "sidecar_service": {"tags": ["a"], "port": "mesh", "disable_default_tcp_check": true, "meta": {"k": "v"},
      "proxy": {"local_service_address": "127.0.0.2", "local_service_port": 9002,
        "upstreams": [
          {"destination_name": "api", "destination_type": "service", "destination_peer": "p",
           "datacenter": "dc2",
           "local_bind_port": 8080, "local_bind_address": "127.0.0.3", "mesh_gateway": {"mode": "local"},
           "config": {"protocol": "http"}},
          {"destination_name": "db", "destination_namespace": "default",
           "local_bind_socket_path": "/alloc/db.sock", "local_bind_socket_mode": "0600"}],
        "expose": {"path": {
          "path": "/up", "protocol": "http2", "local_path_port": 9001, "listener_port": "health"}},
        "config": {"max_inbound_connections": 5}}},
    "sidecar_task": {"name": "proxy", "driver": "exec", "user": "nobody", "kill_timeout": "4s",
      "shutdown_delay": "3s", "kill_signal": "SIGINT", "config": {"command": "/proxy"}, "env": {"A": "b"},
      "meta": {"c": "d"}, "resources": {"cpu": 50, "memory": 60},
      "logs": {"max_files": 3, "max_file_size": 4},
      "volume_mount": {"volume": "data", "destination": "/data", "read_only": true}}}},
  "task": {"web": {"driver": "exec"}}
}}}}}`

const wantSidecar = `{"SidecarService":{"Tags":["a"],"Port":"mesh","Proxy":{"LocalServiceAddress":"127.0.0.2",` +
	`"LocalServicePort":9002,"Expose":{"Paths":[{"Path":"/up","Protocol":"http2","LocalPathPort":9001,` +
	`"ListenerPort":"health"}]},"Upstreams":[{"DestinationName":"api","DestinationPeer":"p",` +
	`"DestinationType":"service","LocalBindPort":8080,"Datacenter":"dc2","LocalBindAddress":"127.0.0.3",` +
	`"MeshGateway":{"Mode":"local"},"Config":{"protocol":"http"}},{"DestinationName":"db",` +
	`"DestinationNamespace":"default","LocalBindSocketPath":"/alloc/db.sock","LocalBindSocketMode":"0600"}],` +
	`"Config":{"max_inbound_connections":5}},"DisableDefaultTCPCheck":true,"Meta":{"k":"v"}},` +
	`"SidecarTask":{"Name":"proxy","Driver":"exec","User":"nobody","Config":{"command":"/proxy"},` +
	`"Env":{"A":"b"},"Resources":{"CPU":50,"Cores":0,"MemoryMB":60,"MemoryMaxMB":0,"DiskMB":0},"Meta":{"c":"d"},` +
	`"KillTimeout":4000000000,"LogConfig":{"MaxFiles":3,"MaxFileSizeMB":4,"Disabled":false},` +
	`"ShutdownDelay":3000000000,"KillSignal":"SIGINT","VolumeMounts":[{"Volume":"data","Destination":"/data",` +
	`"ReadOnly":true,"PropagationMode":"private"}]}}`

// gatewaysInHCL has each block and argument of gateways.
const gatewaysInHCL = `job "j" {
  group "g" {
    network {
      mode = "bridge"
      port "in" {
        to = 8080
      }
      port "wan" {}
    }
    service {
      name = "ingress"
      connect {
        gateway {
          proxy {
            connect_timeout                     = "3s"
            envoy_gateway_bind_tagged_addresses = true
            envoy_gateway_no_default_bind       = true
            envoy_dns_discovery_type            = "STRICT_DNS"
            envoy_gateway_bind_addresses "one" {
              address = "0.0.0.0"
              port    = 8080
            }
            config {
              a = 1
            }
          }
          ingress {
            tls {
              enabled         = true
              tls_min_version = "TLSv1_2"
              tls_max_version = "TLSv1_3"
              cipher_suites   = ["X"]
            }
            listener {
              port = 8080
              service {
                name = "one"
              }
            }
            listener {
              port     = 8081
              protocol = "http"
              service {
                name  = "two"
                hosts = ["two.example.com"]
              }
              service {
                name = "*"
              }
            }
          }
        }
      }
    }
    service {
      name = "terminating"
      connect {
        gateway {
          terminating {
            service {
              name      = "billing"
              ca_file   = "/ca"
              cert_file = "/cert"
              key_file  = "/key"
              sni       = "billing.example.com"
            }
          }
        }
      }
    }
    service {
      name = "mesh"
      port = "wan"
      connect {
        gateway {
          mesh {}
        }
      }
    }
  }
}
`

const wantGateways = `{"Gateway":{"Proxy":{"ConnectTimeout":3000000000,"EnvoyGatewayBindTaggedAddresses":true,` +
	`"EnvoyGatewayBindAddresses":{"one":{"Address":"0.0.0.0","Port":8080}},"EnvoyGatewayNoDefaultBind":true,` +
	`"EnvoyDNSDiscoveryType":"STRICT_DNS","Config":{"a":1}},"Ingress":{"TLS":{"Enabled":true,` +
	`"TLSMinVersion":"TLSv1_2","TLSMaxVersion":"TLSv1_3","CipherSuites":["X"]},"Listeners":[{"Port":8080,` +
	`"Protocol":"tcp","Services":[{"Name":"one"}]},{"Port":8081,"Protocol":"http","Services":[{"Name":"two",` +
	`"Hosts":["two.example.com"]},{"Name":"*"}]}]},"Terminating":null,"Mesh":null}} ` +
	`{"Gateway":{"Proxy":{"ConnectTimeout":5000000000},"Ingress":null,"Terminating":{"Services":[` +
	`{"Name":"billing","CAFile":"/ca","CertFile":"/cert","KeyFile":"/key","SNI":"billing.example.com"}]},` +
	`"Mesh":null}} {"Gateway":{"Proxy":{"ConnectTimeout":5000000000},"Ingress":null,"Terminating":null,"Mesh":{}}}`

func TestReadJob_ReadsConnectInBothForms(t *testing.T) {
	for src, want := range map[string]string{
		sidecarInHCL:  wantSidecar,
		sidecarInJSON: wantSidecar,
		gatewaysInHCL: wantGateways,
	} {
		f, err := ReadJob("j", []byte(src), &Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		defaults.Canonicalize(f.Job)
		if err := f.Locate(validate.Job(f.Job)); err != nil {
			t.Error(err)
		}
		var got []string
		for _, s := range f.Job.TaskGroups[0].Services {
			text, err := json.Marshal(s.Connect)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, " "), want)
		}
	}
}

// TestReadJob_RejectsConnectWithAReason has a fault in each service.
func TestReadJob_RejectsConnectWithAReason(t *testing.T) {
	proxy := func(lines string) string { return "sidecar_service {\n proxy {\n" + lines + "\n}\n}" }
	ingress := func(lines string) string {
		return "gateway {\n ingress {\n listener {\n port = 1\n service {\n name = \"a\"\n" + lines + "\n}\n}\n}\n}"
	}
	for lines, want := range map[string]string{
		proxy(`transparent_proxy {}`): `name each service in upstreams`,
		proxy("upstreams {\n destination_name = \"a\"\n destination_partition = \"b\"\n }"): `Consul Enterprise`,
		"sidecar_service {}\n sidecar_task {\n identity {\n name = \"x\"\n }\n }":           `the proxy has a token of Consul alone`,
		"sidecar_service {}\n sidecar_task {\n resources {\n network {}\n }\n }": `a network in the resources ` +
			`of a sidecar_task`,
		ingress(`max_connections = 5`):                      `"max_connections" is not supported by berth yet`,
		ingress(`tls {}`):                                   `"tls" is not supported by berth yet`,
		"gateway {\n api {}\n}":                             `unsupported block "api"`,
		proxy("upstreams {\n }"):                            `missing argument "destination_name"`,
		"gateway {\n ingress {\n tls {\n sds {}\n }\n }\n}": `the certificate that Consul gives it`,
	} {
		_, err := ReadJob("j.hcl", []byte(serviceFile("connect {\n"+lines+"\n}")), &Inputs{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", lines, err, want)
		}
	}
}

// TestReadJob_LocatesFaultsOfConnectInTheAPIForm has faults in each kind of list.
func TestReadJob_LocatesFaultsOfConnectInTheAPIForm(t *testing.T) {
	const src = `{"ID": "j", "TaskGroups": [{"Name": "g", "Networks": [{"Mode": "bridge"}],
"Tasks": [{"Name": "t", "Driver": "exec"}],
"Services": [{"Name": "web", "Connect": {"SidecarService": {"Proxy": {
"Upstreams": [{"DestinationName": "a", "LocalBindPort": 1},
 {"DestinationName": "b",
  "LocalBindPort": 70000}],
"Expose": {"Paths": [
 {"Path": "/up", "LocalPathPort": 1,
  "ListenerPort": "none"}]}}}}}, {"Name": "in", "Connect": {"Gateway": {"Ingress": {"Listeners": [
 {"Port": 8080, "Services": [{"Name": "a"},
  {"Name": "*"}]}]}}}}]}]}`
	var job structs.Job
	if err := json.Unmarshal([]byte(src), &job); err != nil {
		t.Fatal(err)
	}
	defaults.Canonicalize(&job)
	err := locate.InJSON("j.json", []byte(src), nil, validate.Job(&job))
	for _, want := range []string{
		`j.json:6,20: job "j": group "g": service 1: connect: sidecar_service: proxy: upstreams 2: local_bind_port`,
		`j.json:9,19: job "j": group "g": service 1: connect: sidecar_service: proxy: expose: path 1: listener_port`,
		`j.json:11,12: job "j": group "g": service 2: connect: gateway: ingress: listener 1: service 2: name "*"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nit lacks %s", err, want)
		}
	}
}
