package api_test

import "berth/structs/quota"

// quotaCalls has the requests to the routes of quotas, in the form in which clients of the dialect send them.
func quotaCalls() map[string]routeCall {
	const body = `{"Name":"team","Description":"d","Limits":[{"Region":"global","RegionLimit":{"CPU":2500,` +
		`"Cores":0,"MemoryMB":1000,"MemoryMaxMB":null,"Devices":[{"Name":"nvidia/gpu","Count":1,` +
		`"Constraints":null,"Affinities":null}],"NUMA":null,"SecretsMB":null,"NodePools":null,` +
		`"Storage":{"VariablesMB":0,"HostVolumesMB":0}},"VariablesLimit":null,"Hash":null}],` +
		`"CreateIndex":0,"ModifyIndex":0}`
	request := &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:        "team",
		Description: "d",
		Limits: []*quota.Limit{{
			Region: "global",
			RegionLimit: &quota.Bounds{
				CPU:      2500,
				MemoryMB: 1000,
				Devices:  []*quota.DeviceBound{{Name: "nvidia/gpu", Count: 1}},
				Storage:  &quota.StorageBound{},
			},
		}},
	}}
	return map[string]routeCall{
		"PUT /v1/quota":      {path: "/v1/quota", body: body, rpc: "Quota.Apply", request: request},
		"PUT /v1/quota/{id}": {path: "/v1/quota/team", body: body, rpc: "Quota.Apply", request: request},
	}
}
