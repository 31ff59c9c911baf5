package endpoints_test

import (
	"testing"

	"berth/structs/access"
)

// A token of a login is global if its method says so. Tools of the dialect show it.
func TestLogin_GivesATokenOfTheLocalityOfItsMethod(t *testing.T) {
	s := newLoginServer(t)
	s.rule("ci", "", access.BindManagement, "")
	for _, locality := range []string{access.LocalityGlobal, access.LocalityLocal} {
		m := s.jwtMethod()
		m.TokenLocality = locality
		must(s.server, access.AuthMethodPut, &access.AuthMethodPutRequest{Method: m})
		token := must(s.server, access.TokenLogin, s.byToken(s.issuer.JWT(map[string]any{"sub": "ann"}))).Token
		if token.Global != (locality == access.LocalityGlobal) {
			t.Errorf("the method is %s, and the token global: %t", locality, token.Global)
		}
	}
}
