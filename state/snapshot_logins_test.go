package state

import (
	"time"

	"berth/state/acls"
	"berth/structs/access"
	"berth/structs/login"
)

// addLogins adds a row to each table of logins. The policy read exists.
func addLogins(w *fixture) {
	do(w, acls.AuthMethodPut, &login.AuthMethodChange{Now: 1, Method: &login.AuthMethod{
		Name:          "ci",
		Type:          login.TypeJWT,
		TokenLocality: login.LocalityLocal,
		MaxTokenTTL:   login.Duration(time.Hour),
		Config:        &login.AuthConfig{},
	}})
	do(w, acls.BindingRulePut, &login.BindingRuleChange{Now: 1, Rule: &login.BindingRule{
		ID:         "b",
		AuthMethod: "ci",
		BindType:   login.BindPolicy,
		BindName:   "read",
	}})
	do(w, acls.Login, &login.LoginChange{
		Method:      "ci",
		MethodIndex: acls.AuthMethod(w.s.Read(), "ci").ModifyIndex,
		Mark:        &login.LoginMark{ID: "m", End: 10},
		Now:         1,
		Token: &access.Token{
			AccessorID: "person",
			SecretHash: []byte("other"),
			Type:       access.TypeClient,
			Policies:   []string{"read"},
			ExpireTime: 10,
		},
	})
	do(w, acls.OneTime, &login.OneTimeChange{Now: 1, Put: &login.OneTimeToken{
		Hash:       []byte("once"),
		Box:        []byte("box"),
		AccessorID: "person",
		End:        10,
	}})
}
