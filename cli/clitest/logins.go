package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/login"
)

// ciMethod is the auth method of the fake cluster for JWTs.
func ciMethod() *login.AuthMethod {
	return &login.AuthMethod{
		Name:            "ci",
		Type:            login.TypeJWT,
		TokenLocality:   login.LocalityLocal,
		TokenNameFormat: login.DefaultNameFormat,
		MaxTokenTTL:     login.Duration(time.Hour),
		Default:         true,
		Config: &login.AuthConfig{
			JWKSURL:          "https://ci.example.org/keys",
			BoundAudiences:   []string{"berth"},
			OIDCClientSecret: login.Redacted,
			ClaimMappings:    map[string]string{"project": "project"},
		},
		ModifyTime: login.Time(time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC).UnixNano()),
	}
}

// opsRule is the binding rule of the fake cluster.
func opsRule() *login.BindingRule {
	return &login.BindingRule{
		ID:          "b1",
		Description: "People on duty",
		AuthMethod:  "ci",
		Selector:    `"ops" in list.groups`,
		BindType:    login.BindRole,
		BindName:    "on-call",
	}
}

// answerLogins answers the methods of logins.
func (w *Cluster) answerLogins() {
	apitest.Answer(w.Caller, login.AuthMethodList, login.AuthMethodListResponse{
		Methods: []*login.AuthMethodStub{ciMethod().Stub(), {Name: "corp", Type: login.TypeOIDC}},
	})
	apitest.On(w.Caller, login.AuthMethodGet,
		func(context.Context, *login.AuthMethodGetRequest) (*login.AuthMethodGetResponse, error) {
			return &login.AuthMethodGetResponse{Method: ciMethod()}, nil
		})
	apitest.On(w.Caller, login.AuthMethodPut,
		func(_ context.Context, r *login.AuthMethodPutRequest) (*login.AuthMethodPutResponse, error) {
			return &login.AuthMethodPutResponse{Method: r.Method}, nil
		})
	apitest.Answer(w.Caller, login.AuthMethodDelete, structs.Empty{})

	apitest.Answer(w.Caller, login.BindingRuleList, login.BindingRuleListResponse{
		Rules: []*login.BindingRuleStub{opsRule().Stub()},
	})
	apitest.On(w.Caller, login.BindingRuleGet,
		func(context.Context, *login.BindingRuleGetRequest) (*login.BindingRuleGetResponse, error) {
			return &login.BindingRuleGetResponse{Rule: opsRule()}, nil
		})
	apitest.On(w.Caller, login.BindingRulePut,
		func(_ context.Context, r *login.BindingRulePutRequest) (*login.BindingRulePutResponse, error) {
			return &login.BindingRulePutResponse{Rule: r.Rule}, nil
		})
	apitest.Answer(w.Caller, login.BindingRuleDelete, structs.Empty{})

	apitest.On(w.Caller, login.TokenLogin,
		func(_ context.Context, r *login.TokenLoginRequest) (*access.TokenPutResponse, error) {
			if r.LoginToken != "a.b.c" {
				return nil, structs.Deniedf("the JWT is not valid for auth method %s", r.AuthMethodName)
			}
			return &access.TokenPutResponse{Token: dutyToken(), SecretID: "secret of " + r.AuthMethodName},
				nil
		})
	apitest.Answer(w.Caller, login.OneTimeMake, login.OneTimeMakeResponse{
		OneTimeToken: &login.OpenOneTimeToken{OneTimeSecretID: "once", AccessorID: dutyToken().AccessorID},
	})
}
