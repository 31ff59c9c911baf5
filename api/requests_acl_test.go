package api_test

import (
	"time"

	"berth/structs/access"
)

// aclCalls has the requests to the routes of access control.
func aclCalls() map[string]routeCall {
	link := []*access.Link{{Name: "ops"}}
	role := func(id string) *access.Role {
		return &access.Role{ID: id, Name: "ops", Policies: []*access.PolicyLink{{Name: "read"}}}
	}
	return map[string]routeCall{
		"PUT /v1/acl/bootstrap": {
			path:    "/v1/acl/bootstrap",
			body:    `{"BootstrapSecret":"s"}`,
			rpc:     "ACL.Bootstrap",
			request: &access.BootstrapRequest{Secret: "s"},
		},
		"GET /v1/acl/mode": {
			path:    "/v1/acl/mode",
			rpc:     "ACL.Mode",
			request: &access.ModeGetRequest{},
		},
		"PUT /v1/acl/mode": {
			path:    "/v1/acl/mode",
			body:    `{"Mode":"log"}`,
			rpc:     "ACL.SetMode",
			request: &access.ModeSetRequest{Mode: "log"},
		},
		"PUT /v1/acl/policy/{id}": {
			path: "/v1/acl/policy/p",
			body: `{"Name":"p","Description":"d","Rules":"node { policy = \"read\" }"}`,
			rpc:  "ACL.UpsertPolicy",
			request: &access.PolicyPutRequest{Policy: &access.Policy{
				Name: "p", Description: "d", Rules: `node { policy = "read" }`,
			}},
		},
		"PUT /v1/acl/role": {
			path:    "/v1/acl/role",
			body:    `{"Name":"ops","Policies":[{"Name":"read"}]}`,
			rpc:     "ACL.UpsertRole",
			request: &access.RolePutRequest{Role: role("")},
		},
		"PUT /v1/acl/role/{id}": {
			path:    "/v1/acl/role/r",
			body:    `{"ID":"r","Name":"ops","Policies":[{"Name":"read"}]}`,
			rpc:     "ACL.UpsertRole",
			request: &access.RolePutRequest{Role: role("r")},
		},
		"GET /v1/acl/role/name/{id}": {
			path:    "/v1/acl/role/name/ops",
			rpc:     "ACL.GetRole",
			request: &access.RoleGetRequest{Name: "ops"},
		},
		"GET /v1/acl/tokens": {
			path:    "/v1/acl/tokens?global=true",
			rpc:     "ACL.ListTokens",
			request: &access.TokenListRequest{},
		},
		"GET /v1/acl/token/self": {
			path:    "/v1/acl/token/self",
			rpc:     "ACL.GetToken",
			request: &access.TokenGetRequest{},
		},
		"PUT /v1/acl/token": {
			path: "/v1/acl/token",
			body: `{"Name":"n","Type":"client","Policies":["read"],"Roles":[{"Name":"ops"}],"ExpirationTTL":"1h",` +
				`"CreateTime":"0001-01-01T00:00:00Z","CreateIndex":0,"SecretID":""}`,
			rpc: "ACL.UpsertToken",
			request: &access.TokenPutRequest{
				Token: &access.Token{Name: "n", Type: "client", Policies: []string{"read"}, Roles: link},
				TTL:   time.Hour,
			},
		},
		"PUT /v1/acl/token/{id}": {
			path: "/v1/acl/token/a",
			body: `{"AccessorID":"a","Name":"n","Type":"client","Policies":["read"],` +
				`"ExpirationTime":"1970-01-01T00:00:01Z"}`,
			rpc: "ACL.UpsertToken",
			request: &access.TokenPutRequest{Token: &access.Token{
				AccessorID: "a", Name: "n", Type: "client", Policies: []string{"read"}, ExpireTime: 1e9,
			}},
		},
	}
}
