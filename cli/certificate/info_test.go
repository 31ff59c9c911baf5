package certificate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/api/show"
	"berth/cli/clitest"
	"berth/internal/pki"
)

func TestInfo_TellsHowMuchOfTheLifeIsLeft(t *testing.T) {
	begin := time.Now()
	authority, err := pki.NewAuthority("eu", begin, 100*day)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, _, err := authority.Issue(pki.Request{
		Identity: pki.Identity{Region: "eu", Role: pki.RoleNode, ID: "n1"},
		From:     begin.Add(time.Hour), // the certificate begins an hour earlier
		Life:     99 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cert.pem")
	err = os.WriteFile(file, certPEM, modeCert)
	if err != nil {
		t.Fatal(err)
	}

	real := show.Now
	t.Cleanup(func() { show.Now = real })
	for after, want := range map[time.Duration]string{
		-time.Minute:                 "not valid yet",
		25*time.Hour + time.Minute/2: "75.0 %",
		101 * time.Hour:              "none: it is no longer valid",
	} {
		show.Now = func() time.Time { return begin.Add(after) }
		code, out, errs := clitest.Run(t, Commands, "cert", "info", file)
		if code != 0 || !strings.Contains(out, "Life left            = "+want+"\n") {
			t.Errorf("after %s: exit code %d, %s\n%s", after, code, errs, out)
		}
	}
}
