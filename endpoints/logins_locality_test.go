package endpoints_test

import (
	"testing"

	"berth/structs/login"
)

// A token of a login is global if its method says so. Tools of the dialect show it.
func TestLogin_GivesATokenOfTheLocalityOfItsMethod(t *testing.T) {
	s := newLoginServer(t)
	s.rule("ci", "", login.BindManagement, "")
	for _, locality := range []string{login.LocalityGlobal, login.LocalityLocal} {
		m := s.jwtMethod()
		m.TokenLocality = locality
		must(s.server, login.AuthMethodPut, &login.AuthMethodPutRequest{Method: m})
		token := must(s.server, login.TokenLogin, s.byToken(s.issuer.JWT(map[string]any{"sub": "ann"}))).Token
		if token.Global != (locality == login.LocalityGlobal) {
			t.Errorf("the method is %s, and the token global: %t", locality, token.Global)
		}
	}
}
