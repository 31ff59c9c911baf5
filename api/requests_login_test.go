package api_test

import (
	"time"

	"berth/structs/access"
)

// loginCalls has the requests to the routes of logins. The caller of the tests has a loopback address.
func loginCalls() map[string]routeCall {
	const source = "127.0.0.1"
	method := &access.AuthMethod{
		Name:          "corp",
		Type:          access.MethodOIDC,
		TokenLocality: access.LocalityLocal,
		MaxTokenTTL:   access.Duration(time.Hour),
		Default:       true,
		Config: &access.AuthConfig{
			OIDCDiscoveryURL: "https://id.example.org",
			OIDCClientSecret: "s",
			ExpirationLeeway: access.Duration(time.Minute),
			ClockSkewLeeway:  access.Duration(time.Second),
			ClaimMappings:    map[string]string{"sub": "user"},
		},
	}
	const body = `{"Name":"corp","Type":"OIDC","TokenLocality":"local","MaxTokenTTL":"1h0m0s","Default":true,` +
		`"Config":{"OIDCDiscoveryURL":"https://id.example.org","OIDCClientSecret":"s","ExpirationLeeway":"1m0s",` +
		`"NotBeforeLeeway":"","ClockSkewLeeway":1000000000,"ClaimMappings":{"sub":"user"}},` +
		`"CreateTime":"0001-01-01T00:00:00Z","ModifyTime":"0001-01-01T00:00:00Z","CreateIndex":0,"ModifyIndex":0}`
	rule := func(id string) *access.BindingRule {
		return &access.BindingRule{ID: id, AuthMethod: "corp", Selector: "s", BindType: "role",
			BindName: "ops"}
	}
	return map[string]routeCall{
		"PUT /v1/acl/auth-method": {
			path:    "/v1/acl/auth-method",
			body:    body,
			rpc:     "ACL.UpsertAuthMethod",
			request: &access.AuthMethodPutRequest{Method: method},
		},
		"PUT /v1/acl/auth-method/{id}": {
			path:    "/v1/acl/auth-method/corp",
			body:    body,
			rpc:     "ACL.UpsertAuthMethod",
			request: &access.AuthMethodPutRequest{Method: method},
		},
		"PUT /v1/acl/binding-rule": {
			path:    "/v1/acl/binding-rule",
			body:    `{"AuthMethod":"corp","Selector":"s","BindType":"role","BindName":"ops","CreateTime":"0001-01-01T00:00:00Z"}`,
			rpc:     "ACL.UpsertBindingRule",
			request: &access.BindingRulePutRequest{Rule: rule("")},
		},
		"PUT /v1/acl/binding-rule/{id}": {
			path:    "/v1/acl/binding-rule/r",
			body:    `{"ID":"r","AuthMethod":"corp","Selector":"s","BindType":"role","BindName":"ops"}`,
			rpc:     "ACL.UpsertBindingRule",
			request: &access.BindingRulePutRequest{Rule: rule("r")},
		},
		"PUT /v1/acl/login": {
			path:    "/v1/acl/login",
			body:    `{"AuthMethodName":"ci","LoginToken":"t"}`,
			rpc:     "ACL.Login",
			request: &access.TokenLoginRequest{AuthMethodName: "ci", LoginToken: "t", Source: source},
		},
		"PUT /v1/acl/oidc/auth-url": {
			path: "/v1/acl/oidc/auth-url",
			body: `{"AuthMethodName":"corp","RedirectURI":"http://localhost:4649/oidc/callback","ClientNonce":"n"}`,
			rpc:  "ACL.OIDCAuthURL",
			request: &access.AuthURLRequest{
				AuthMethodName: "corp", RedirectURI: "http://localhost:4649/oidc/callback",
				ClientNonce: "n", Source: source,
			},
		},
		"PUT /v1/acl/oidc/complete-auth": {
			path: "/v1/acl/oidc/complete-auth",
			body: `{"AuthMethodName":"corp","RedirectURI":"u","ClientNonce":"n","State":"s","Code":"c","Iss":"i"}`,
			rpc:  "ACL.OIDCCompleteAuth",
			request: &access.CompleteAuthRequest{
				AuthMethodName: "corp", RedirectURI: "u", ClientNonce: "n", State: "s", Code: "c",
				Iss: "i", Source: source,
			},
		},
		"PUT /v1/acl/token/onetime": {
			path:    "/v1/acl/token/onetime",
			rpc:     "ACL.UpsertOneTimeToken",
			request: &access.OneTimeMakeRequest{},
		},
		"PUT /v1/acl/token/onetime/exchange": {
			path:    "/v1/acl/token/onetime/exchange",
			body:    `{"OneTimeSecretID":"o"}`,
			rpc:     "ACL.ExchangeOneTimeToken",
			request: &access.OneTimeExchangeRequest{OneTimeSecretID: "o", Source: source},
		},
	}
}
