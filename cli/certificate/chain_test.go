package certificate

import (
	"strings"
	"testing"

	"berth/cli/clitest"
	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestInfo_FollowsTheAuthoritiesBetween(t *testing.T) {
	a := pkitest.NewBetween(t, "eu")
	file := a.Files(t, pki.RoleServer, "s1").Cert
	code, _, errs := clitest.Run(t, Commands, "cert", "info", "-ca", a.CAFile, file)
	if code != 0 {
		t.Errorf("exit code %d, %s", code, errs)
	}
	other := pkitest.New(t, "eu")
	code, _, errs = clitest.Run(t, Commands, "cert", "info", "-ca", other.CAFile, file)
	if code == 0 || !strings.Contains(errs, "is not signed by") {
		t.Errorf("another authority: exit code %d, %s", code, errs)
	}
}
