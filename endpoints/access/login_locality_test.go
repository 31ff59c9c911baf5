package access_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs/access"
)

// A token of a login is global if its method says so. Tools of the dialect show it.
func TestLogin_GivesATokenOfTheLocalityOfItsMethod(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("ci", "", access.BindManagement, "")
	for _, locality := range []string{access.LocalityGlobal, access.LocalityLocal} {
		m := s.JWTMethod()
		m.TokenLocality = locality
		endpointstest.Must(s.Server, access.AuthMethodPut, &access.AuthMethodPutRequest{Method: m})
		token := endpointstest.Must(s.Server, access.TokenLogin,
			s.ByToken(s.Issuer.JWT(map[string]any{"sub": "ann"}))).Token
		if token.Global != (locality == access.LocalityGlobal) {
			t.Errorf("the method is %s, and the token global: %t", locality, token.Global)
		}
	}
}
