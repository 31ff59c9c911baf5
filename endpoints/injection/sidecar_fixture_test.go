package injection

import (
	"berth/structs"
	"berth/structs/defaults"
)

// sidecarJob returns a job with a service that has a sidecar.
func sidecarJob() *structs.Job {
	j := &structs.Job{
		ID: "shop",
		TaskGroups: []*structs.TaskGroup{{
			Name:     "web",
			Count:    1,
			Networks: []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}},
			Tasks:    []*structs.Task{{Name: "server", Driver: "exec"}},
			Services: []*structs.Service{{
				Name:      "front",
				PortLabel: "8080",
				Connect: &structs.Connect{SidecarService: &structs.SidecarService{Proxy: &structs.ConnectProxy{
					Upstreams: []*structs.ConnectUpstream{{DestinationName: "api", LocalBindPort: 9001}},
				}}},
			}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

// gatewayJob returns a job with a gateway.
func gatewayJob(mode string, g *structs.Gateway) *structs.Job {
	j := &structs.Job{
		ID: "edge",
		TaskGroups: []*structs.TaskGroup{{
			Name:     "gw",
			Count:    1,
			Networks: []*structs.NetworkResource{{Mode: mode, DynamicPorts: []structs.Port{{Label: "wan"}}}},
			Services: []*structs.Service{{Name: "gate", Connect: &structs.Connect{Gateway: g}}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

func oneIngress() *structs.GatewayIngress {
	return &structs.GatewayIngress{Listeners: []*structs.GatewayListener{{
		Port:     8080,
		Services: []*structs.GatewayIngressService{{Name: "web"}},
	}}}
}

func oneTerminating() *structs.GatewayTerminating {
	return &structs.GatewayTerminating{Services: []*structs.GatewayLinkedService{{Name: "billing"}}}
}
