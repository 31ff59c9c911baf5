package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

// ciMethod is the auth method of the fake cluster for JWTs.
func ciMethod() *access.AuthMethod {
	return &access.AuthMethod{
		Name:            "ci",
		Type:            access.MethodJWT,
		TokenLocality:   access.LocalityLocal,
		TokenNameFormat: access.DefaultNameFormat,
		MaxTokenTTL:     access.Duration(time.Hour),
		Default:         true,
		Config: &access.AuthConfig{
			JWKSURL:          "https://ci.example.org/keys",
			BoundAudiences:   []string{"berth"},
			OIDCClientSecret: access.Redacted,
			ClaimMappings:    map[string]string{"project": "project"},
		},
		ModifyTime: access.Time(time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC).UnixNano()),
	}
}

// opsRule is the binding rule of the fake cluster.
func opsRule() *access.BindingRule {
	return &access.BindingRule{
		ID:          "b1",
		Description: "People on duty",
		AuthMethod:  "ci",
		Selector:    `"ops" in list.groups`,
		BindType:    access.BindRole,
		BindName:    "on-call",
	}
}

// answerLogins answers the methods of logins.
func (w *Cluster) answerLogins() {
	apitest.Answer(w.Caller, access.AuthMethodList, access.AuthMethodListResponse{
		Methods: []*access.AuthMethodStub{ciMethod().Stub(), {Name: "corp", Type: access.MethodOIDC}},
	})
	apitest.On(w.Caller, access.AuthMethodGet,
		func(context.Context, *access.AuthMethodGetRequest) (*access.AuthMethodGetResponse, error) {
			return &access.AuthMethodGetResponse{Method: ciMethod()}, nil
		})
	apitest.On(w.Caller, access.AuthMethodPut,
		func(_ context.Context, r *access.AuthMethodPutRequest) (*access.AuthMethodPutResponse, error) {
			return &access.AuthMethodPutResponse{Method: r.Method}, nil
		})
	apitest.Answer(w.Caller, access.AuthMethodDelete, structs.Empty{})

	apitest.Answer(w.Caller, access.BindingRuleList, access.BindingRuleListResponse{
		Rules: []*access.BindingRuleStub{opsRule().Stub()},
	})
	apitest.On(w.Caller, access.BindingRuleGet,
		func(context.Context, *access.BindingRuleGetRequest) (*access.BindingRuleGetResponse, error) {
			return &access.BindingRuleGetResponse{Rule: opsRule()}, nil
		})
	apitest.On(w.Caller, access.BindingRulePut,
		func(_ context.Context, r *access.BindingRulePutRequest) (*access.BindingRulePutResponse, error) {
			return &access.BindingRulePutResponse{Rule: r.Rule}, nil
		})
	apitest.Answer(w.Caller, access.BindingRuleDelete, structs.Empty{})

	apitest.On(w.Caller, access.TokenLogin,
		func(_ context.Context, r *access.TokenLoginRequest) (*access.TokenPutResponse, error) {
			if r.LoginToken != "a.b.c" {
				return nil, structs.Deniedf("the JWT is not valid for auth method %s", r.AuthMethodName)
			}
			return &access.TokenPutResponse{Token: dutyToken(), SecretID: "secret of " + r.AuthMethodName},
				nil
		})
	apitest.Answer(w.Caller, access.OneTimeMake, access.OneTimeMakeResponse{
		OneTimeToken: &access.OpenOneTimeToken{OneTimeSecretID: "once", AccessorID: dutyToken().AccessorID},
	})
}
