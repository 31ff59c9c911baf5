package endpoints_test

import (
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

// ofSomeTypes has the fields of a job that only jobs of some types have, or of which a job has one.
var ofSomeTypes = map[string]bool{
	".TaskGroups[0].Volumes[].Parameters":                  true,
	".TaskGroups[0].MaxRunDuration":                        true,
	".TaskGroups[0].Services[0].Checks[0].Args":            true,
	".TaskGroups[0].Tasks[0].Services[0].Checks[0].Header": true,
	".TaskGroups[0].Services[0].TaggedAddresses":           true, // in Consul
	".TaskGroups[0].Services[0].Weights":                   true,
	".Periodic":                                            true,
	".ParameterizedJob":                                    true,
	".Update":                                              true,
	".Migrate":                                             true,
	".TaskGroups[0].Update":                                true,
	".TaskGroups[0].Migrate":                               true,

	".TaskGroups[0].Scaling.Target": true, // it is emptied

	".TaskGroups[0].Tasks[0].Kind":                true,
	".TaskGroups[0].Services[0].Connect":          true,
	".TaskGroups[0].Tasks[0].Services[0].Connect": true, // rejected

	connectPath + "SidecarService":                    true,
	connectPath + "SidecarService.Proxy.ExposeConfig": true, // it is emptied
	connectPath + "SidecarService.Proxy.Expose.Path":  true, // likewise
	connectPath + "SidecarTask":                       true,
	connectPath + "SidecarTask.Resources.Devices":     true, // as those of a task
	connectPath + "Gateway":                           true,
	connectPath + "Gateway.Ingress":                   true,
	connectPath + "Gateway.Terminating":               true,
	connectPath + "Gateway.Mesh":                      true,
}

const connectPath = ".TaskGroups[0].Services[0].Connect."

// filledMesh returns jobs in the service mesh, with all that a service can have there.
func filledMesh() []*structs.Job {
	config := func() map[string]any { return map[string]any{"a": "b"} }
	pairs := func() map[string]string { return map[string]string{"k": "v"} }
	sidecar := &structs.Connect{
		SidecarService: &structs.SidecarService{
			Tags: []string{"x"},
			Port: "p",
			Proxy: &structs.ConnectProxy{
				Expose: &structs.ConnectExpose{Paths: []*structs.ConnectExposePath{{
					Path: "/", LocalPathPort: 1, ListenerPort: "a",
				}}},
				Upstreams: []*structs.ConnectUpstream{{
					DestinationName: "api",
					LocalBindPort:   1,
					MeshGateway:     &structs.ConnectMeshGateway{Mode: "local"},
					Config:          config(),
				}},
				Config: config(),
			},
			Meta: pairs(),
		},
		SidecarTask: &structs.SidecarTask{
			Name:          "proxy",
			Driver:        "exec",
			Config:        config(),
			Env:           pairs(),
			Resources:     &structs.Resources{CPU: 1},
			Meta:          pairs(),
			KillTimeout:   new(time.Second),
			LogConfig:     &structs.LogConfig{MaxFiles: 1},
			ShutdownDelay: new(time.Second),
			VolumeMounts:  []*structs.VolumeMount{{Volume: "data", Destination: "/data"}},
		},
	}
	proxy := func() *structs.GatewayProxy {
		return &structs.GatewayProxy{
			ConnectTimeout:            new(time.Second),
			EnvoyGatewayBindAddresses: map[string]*structs.GatewayBindAddress{"a": {Address: "0.0.0.0", Port: 1}},
			Config:                    config(),
		}
	}
	ingress := &structs.Connect{Gateway: &structs.Gateway{
		Proxy: proxy(),
		Ingress: &structs.GatewayIngress{
			TLS: &structs.GatewayTLS{CipherSuites: []string{"x"}},
			Listeners: []*structs.GatewayListener{{
				Port:     1,
				Protocol: "http",
				Services: []*structs.GatewayIngressService{{Name: "a", Hosts: []string{"h"}}},
			}},
		},
	}}
	terminating := &structs.Connect{Gateway: &structs.Gateway{
		Proxy: proxy(),
		Terminating: &structs.GatewayTerminating{Services: []*structs.GatewayLinkedService{{
			Name: "a", CAFile: "c", CertFile: "d", KeyFile: "e", SNI: "f",
		}}},
	}}
	var jobs []*structs.Job
	for _, c := range []*structs.Connect{sidecar, ingress, terminating} {
		j := filledJob()
		s := j.TaskGroups[0].Services[0]
		s.Provider = structs.ServiceProviderConsul
		s.Connect = c
		defaults.Canonicalize(j)
		jobs = append(jobs, j)
	}
	return jobs
}

// filledParents returns jobs that start others, with all that they can have.
func filledParents() []*structs.Job {
	periodic := filledBatch()
	periodic.Periodic = &structs.PeriodicConfig{Enabled: true, Specs: []string{"@daily"}}
	defaults.Canonicalize(periodic)
	parameterized := filledBatch()
	parameterized.ParameterizedJob = &structs.ParameterizedJobConfig{
		MetaRequired: []string{"a"},
		MetaOptional: []string{"b"},
	}
	defaults.Canonicalize(parameterized)
	return []*structs.Job{periodic, parameterized}
}

func filledBatch() *structs.Job {
	j := filledJob()
	j.Type = structs.JobBatch
	j.Update = nil
	j.Migrate = nil
	for _, g := range j.TaskGroups {
		g.Update = nil
		g.Migrate = nil
		g.MaxRunDuration = new(time.Hour)
	}
	return j
}
