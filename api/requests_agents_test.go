package api_test

// agentCalls has the requests to the routes that look into an agent.
func agentCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/client/metadata": {path: "/v1/client/metadata?node_id=n1", status: 200},
		"PUT /v1/client/metadata": {
			path:   "/v1/client/metadata",
			body:   `{"NodeID":"n1","Meta":{"role":"db","rack":null}}`,
			status: 200,
		},
		"GET /v1/client/identity": {path: "/v1/client/identity?node_id=n1", status: 200},
		"PUT /v1/client/identity/renew": {
			path: "/v1/client/identity/renew", body: `{"NodeID":"n1"}`, status: 200,
		},
		"GET /v1/agent/host":              {path: "/v1/agent/host", status: 200},
		"GET /v1/agent/monitor":           {path: "/v1/agent/monitor?log_level=warn", status: 412},
		"GET /v1/agent/monitor/export":    {path: "/v1/agent/monitor/export?plain=true", status: 200},
		"GET /v1/agent/pprof/{id}":        {path: "/v1/agent/pprof/cmdline", status: 200},
		"GET /v1/agent/schedulers":        {path: "/v1/agent/schedulers", status: 200},
		"GET /v1/agent/schedulers/config": {path: "/v1/agent/schedulers/config", status: 200},
		"PUT /v1/agent/schedulers/config": {path: "/v1/agent/schedulers/config", status: 412},
	}
}
