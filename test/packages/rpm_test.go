package packages

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// rpmOf returns the package of RPM in a release.
func rpmOf(t *testing.T, dist string) string {
	t.Helper()
	found, err := filepath.Glob(dist + "/*.rpm")
	if err != nil || len(found) != 1 {
		t.Fatalf("packages of RPM: %q, %v", found, err)
	}
	return found[0]
}

// installRPM installs, upgrades and removes packages of RPM on a machine without berth. The database of rpm
// is empty, so it knows none of the packages of Debian that the unit needs.
func (m *machine) installRPM(first, next string) {
	m.t.Helper()
	if _, err := exec.LookPath("rpm"); err != nil {
		return // checkRPM says so
	}
	const rpm = "rpm --dbpath /var/lib/rpm-test --nodeps "

	m.must("userdel berth; mv /usr/bin/systemd-sysusers /usr/bin/away")
	expect(m.t, m.must(rpm+"-i "+first), "systemctl enable --now berth")
	m.hasUser()
	m.must("mv /usr/bin/away /usr/bin/systemd-sysusers")
	m.must("test -x /usr/bin/berth -a -e /etc/berth/berth.hcl")
	m.mustFail("systemctl is-active berth")
	m.must("systemctl enable --now berth")
	m.await("berth node status | grep ready")
	m.must("echo '# mine' >>/etc/berth/berth.hcl")

	former := m.must(mainPID)
	m.must(rpm + "-U " + next)
	m.must("grep '# mine' /etc/berth/berth.hcl")
	m.await("systemctl is-active berth && test $(" + mainPID + ") != " + former)
	m.await("berth node status | grep ready")

	m.must(rpm + "-e berth")
	m.mustFail("test -e /usr/bin/berth")
	m.mustFail("pgrep -f '^/usr/bin/berth agent'")
	m.must("test -e /var/lib/berth/client/client.db")
}
