package state_test

import (
	"time"

	"berth/state"
	"berth/structs/access"
)

// addLogins adds a row to each table of logins. The policy read exists.
func addLogins(w *fixture) {
	do(w, state.AuthMethodPut, &access.AuthMethodChange{Now: 1, Method: &access.AuthMethod{
		Name:          "ci",
		Type:          access.MethodJWT,
		TokenLocality: access.LocalityLocal,
		MaxTokenTTL:   access.Duration(time.Hour),
		Config:        &access.AuthConfig{},
	}})
	do(w, state.BindingRulePut, &access.BindingRuleChange{Now: 1, Rule: &access.BindingRule{
		ID:         "b",
		AuthMethod: "ci",
		BindType:   access.BindPolicy,
		BindName:   "read",
	}})
	do(w, state.Login, &access.LoginChange{
		Method:      "ci",
		MethodIndex: state.AuthMethod(w.Store.Read(), "ci").ModifyIndex,
		Mark:        &access.LoginMark{ID: "m", End: 10},
		Now:         1,
		Token: &access.Token{
			AccessorID: "person",
			SecretHash: []byte("other"),
			Type:       access.TypeClient,
			Policies:   []string{"read"},
			ExpireTime: 10,
		},
	})
	do(w, state.OneTimeTokenChange, &access.OneTimeChange{Now: 1, Put: &access.OneTimeToken{
		Hash:       []byte("once"),
		Box:        []byte("box"),
		AccessorID: "person",
		End:        10,
	}})
}
