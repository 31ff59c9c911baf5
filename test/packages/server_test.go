package packages

import "strings"

// serverPID prints the process of the agent of the unit of servers.
const serverPID = "systemctl show -P MainPID berth-server"

// serverFiles are the directories whose owner changes with the unit.
const serverFiles = "/etc/berth /var/lib/berth/server /var/lib/berth/audit"

// runServer installs the package, runs a server that is not root, upgrades, and goes to the unit of nodes and
// back. Then it removes the package.
func (m *machine) runServer(first, next string) {
	m.t.Helper()
	m.must("rm -r /etc/berth && dpkg -i " + first)
	m.hasUser()
	m.rejectsNode()

	// Root makes the files, and the agent gets them.
	m.must(`printf 'bind_addr = "127.0.0.1"\nserver {\n bootstrap_expect = 1\n}\naudit {\n enabled = true\n}\n' ` +
		">/etc/berth/berth.hcl")
	m.must("berth tls init -key-saved -id s1")
	m.must("echo BERTH_ARGS=-dc dc1 >>/etc/default/berth")
	m.must("systemctl enable --now berth-server")
	m.await("berth operator raft list-peers | grep leader")
	expect(m.t, m.must("tr '\\0' ' ' </proc/$("+serverPID+")/cmdline"), "-config /etc/berth -dc dc1 ")
	m.await("berth var put app/settings color=blue")
	m.checkProcess()
	m.checkServerFiles()
	m.tellsClones()
	expect(m.t, m.must("berth doctor"), "the agent is healthy")
	expect(m.t, m.must("runuser -u berth -- berth doctor"), "the user of the agent runs the checks")

	// The agent writes its next certificate. A reload gives it what root has written meanwhile.
	m.must("cp /etc/berth/cert.pem /run/former.pem")
	m.await("berth tls ca replace")
	m.await("! cmp -s /etc/berth/cert.pem /run/former.pem")
	m.must("umask 077 && echo 'log_level = \"debug\"' >/etc/berth/level.hcl")
	m.must("systemctl reload berth-server")
	m.await("journalctl -u berth-server | grep log_level")

	process := m.must(serverPID)
	m.must("dpkg -i " + next)
	m.await("systemctl is-active berth-server && test $(" + serverPID + ") != " + process)
	m.checkProcess()
	m.hasVariable()

	m.changeUnits()
	m.must("systemctl disable --now berth && systemctl enable --now berth-server")
	m.hasVariable()
	m.checkProcess()

	// A removal stops the agent, and keeps its data and its user.
	m.must("dpkg -r berth")
	m.mustFail("pgrep -f '^/usr/bin/berth agent'")
	m.mustFail("test -e /run/berth")
	m.must("test -e /var/lib/berth/server/raft -a -e /etc/berth/key.pem")
	m.must("dpkg -P berth")
	m.mustFail("test -e /var/lib/berth")
	m.must("test -e /etc/berth/key.pem && getent passwd berth")
	m.must("rm -r /etc/berth")
}

// hasUser checks the user that an installation has made.
func (m *machine) hasUser() {
	m.t.Helper()
	line := m.must("getent passwd berth")
	expect(m.t, line, ":/var/lib/berth:/usr/sbin/nologin")
	m.must("test $(id -u berth) -lt 1000 -a $(id -gn berth) = berth")
}

// rejectsNode checks that the unit of servers does not start with the configuration of the package, which is
// also that of a node. It says so once.
func (m *machine) rejectsNode() {
	m.t.Helper()
	m.mustFail("systemctl enable --now berth-server")
	said := m.must("journalctl -u berth-server")
	expect(m.t, said, "take the unit berth.service in place of berth-server.service")
	if got := m.must("systemctl show -P NRestarts -P ActiveState berth-server"); got != "0\nfailed\n" {
		m.t.Errorf("after the end, the state and the restarts are %q", got)
	}
	m.must("systemctl disable berth-server")
}

// checkProcess checks that the agent of a server has its own user, and no right of root.
func (m *machine) checkProcess() {
	m.t.Helper()
	status := m.must("cat /proc/$(" + serverPID + ")/status")
	user := strings.TrimSpace(m.must("id -u berth"))
	group := strings.TrimSpace(m.must("id -g berth"))
	expect(m.t, status, "Uid:"+strings.Repeat("\t"+user, 4)+"\n")
	expect(m.t, status, "Gid:"+strings.Repeat("\t"+group, 4)+"\n")
	expect(m.t, status, "CapBnd:\t0000000000000000\n")
	expect(m.t, status, "NoNewPrivs:\t1\n")
	expect(m.t, status, "Seccomp:\t2\n")
	m.must("grep ' / / ro,' /proc/$(" + serverPID + ")/mountinfo")
}

// tellsClones checks that the server records the UUID of its machine, which only root reads, and that it goes
// on where there is none. The test has started it on a machine without one.
func (m *machine) tellsClones() {
	m.t.Helper()
	const record = "cat /var/lib/berth/server/server-machine"
	const dmi = "/sys/class/dmi/id"
	m.must("rm -f /run/systemd/container /.dockerenv") // the UUID of a container is that of its host
	m.must("mount -t tmpfs none /sys/class && mkdir -p " + dmi)
	var records []string
	for _, uuid := range []string{
		"6F2A9C1E-5B1D-4C3A-9A55-0D1E2F3A4B5C",
		"4C4C4544-0043-3510-8052-B9C04F4E3332",
	} {
		m.must("rm -f " + dmi + "/product_uuid && umask 0377 && echo " + uuid + " >" + dmi + "/product_uuid")
		m.must("systemctl restart berth-server")
		m.await("berth operator raft list-peers | grep leader")
		records = append(records, m.must(record))
		expect(m.t, records[len(records)-1], "product:")
	}
	if records[0] == records[1] {
		m.t.Errorf("a machine and its clone have the record %q", records[0])
	}
	expect(m.t, m.must("berth doctor"), "the UUID of this machine tells the server from a copy")

	m.must("umount /sys/class && systemctl restart berth-server")
	m.await("berth operator raft list-peers | grep leader")
	m.mustFail("test -e /run/berth/product_uuid")
	m.must("journalctl -u berth-server | grep 'cannot read the UUID of its machine any more'")
	if now := m.must(record); now != records[1] {
		m.t.Errorf("without the UUID the record is %q, and was %q", now, records[1])
	}
}

// checkServerFiles checks that the keys and the data are for the user of the unit and for root alone.
func (m *machine) checkServerFiles() {
	m.t.Helper()
	got := m.must("cd /etc/berth && stat -c '%n %U:%G %a' berth.hcl ca-key.pem key.pem keyring tls.hcl " +
		"/run/berth/berth.sock /var/lib/berth/audit /var/lib/berth/audit/audit.log /var/lib/berth/server /var/lib/berth")
	want := `berth.hcl berth:berth 640
ca-key.pem berth:berth 600
key.pem berth:berth 600
keyring berth:berth 600
tls.hcl berth:berth 600
/run/berth/berth.sock berth:berth 600
/var/lib/berth/audit berth:berth 700
/var/lib/berth/audit/audit.log berth:berth 600
/var/lib/berth/server berth:berth 700
/var/lib/berth root:root 711
`
	if got != want {
		m.t.Errorf("the files are:\n%s\nwant:\n%s", got, want)
	}
}

// changeUnits makes the machine a node, too, with the other unit: one command, and its start ends the first
// agent also by itself.
func (m *machine) changeUnits() {
	m.t.Helper()
	m.must("systemctl start berth")
	m.mustFail("systemctl is-active berth-server")
	m.hasVariable()
	m.must("systemctl start berth-server")
	m.mustFail("systemctl is-active berth")

	m.must("printf 'client {\\n enabled = true\\n}\\n' >/etc/berth/client.hcl")
	m.must("systemctl disable --now berth-server && systemctl enable --now berth")
	m.await("berth node status | grep ready")
	m.hasVariable()
	if left := m.must("find " + serverFiles + " -user berth -o -group berth"); left != "" {
		m.t.Errorf("with the agent of root, these belong to the user of servers: %s", left)
	}
	m.must("rm /etc/berth/client.hcl")
}

// hasVariable checks that the state of the server is that of the begin.
func (m *machine) hasVariable() {
	m.t.Helper()
	expect(m.t, m.await("berth var get app/settings"), "blue")
}
