package packages

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"berth/test/kit"
)

// checkIdle checks the agent after its first start, without a job.
func (m *machine) checkIdle() {
	m.t.Helper()
	m.await("berth node status | grep ready")
	m.checkLoopback()

	// At once and after some commands.
	const mostKB = 96_000_000 / 1024
	small := fmt.Sprintf("resident=$(awk '/^VmRSS/ {print $2}' /proc/$("+mainPID+")/status); echo $resident kB of memory, want below %[1]d; test $resident -lt %[1]d", mostKB)
	m.must(small)
	m.convert()
	m.must(small)
}

// checkLoopback checks that each socket to which others could send has an address of loopback. The machine
// has a network of its own, in which only the agent listens.
func (m *machine) checkLoopback() {
	m.t.Helper()
	ports := 0
	for line := range strings.Lines(m.must("cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6")) {
		fields := strings.Fields(line)
		const listening, unconnected = "0A", "07" // of TCP and of UDP
		if len(fields) < 4 || fields[3] != listening && fields[3] != unconnected {
			continue
		}
		ports++
		if address := kernelAddress(m, fields[1]); !address.IsLoopback() {
			m.t.Errorf("after its installation the agent listens on %s:\n%s", address, line)
		}
	}
	// The HTTP API, RPC, and gossip over TCP and UDP.
	if ports < 4 {
		m.t.Errorf("the agent listens on %d ports, want 4 or more", ports)
	}
}

// kernelAddress reads an address with a port as the kernel prints it: words of four bytes, the lowest first.
func kernelAddress(m *machine, text string) netip.Addr {
	m.t.Helper()
	digits, _, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(digits)
	kit.Must(m.t, err)
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(raw)
	if !ok {
		m.t.Fatalf("the address %q has %d bytes", text, len(raw))
	}
	return address.Unmap()
}

// stopDraining stops the agent of a node with drain_on_shutdown, as a machine that is switched off does. The
// agent ends by itself after all tasks and mounts have ended. Its next start takes them again.
func (m *machine) stopDraining() {
	m.t.Helper()
	m.must("printf 'client {\\n drain_on_shutdown {\\n}\\n}\\n' >/etc/berth/drain.hcl")
	m.must("systemctl restart berth") // the setting is that of a start
	m.await("berth alloc status $(" + counterAlloc + ") | grep Restored")
	m.must("systemctl stop berth")
	if got := m.must("systemctl show -p Result -p ExecMainCode -p ExecMainStatus berth"); got !=
		"Result=success\nExecMainCode=1\nExecMainStatus=0\n" {
		m.t.Errorf("the agent has not ended by itself: %s\n%s", got, m.log())
	}
	m.mustFail(taskPID)
	m.mustFail("pgrep -f '^[^ ]*berth plugin hostpath'")
	m.mustFail("grep ' /var/lib/berth/csi/v/' /proc/self/mounts")
	m.must("rm /etc/berth/drain.hcl && systemctl start berth")
	m.await(taskPID)
}

// joinByDefaults makes the machine a node of another cluster, as the head of /etc/berth/berth.hcl tells it.
// The server has another address of loopback. The package is installed neither before nor after.
func (m *machine) joinByDefaults(deb string) {
	m.t.Helper()
	m.must("rm -r /etc/berth && dpkg -i " + deb)
	m.must("mkdir -p /run/other && printf 'data_dir = \"/run/other/data\"\nbind_addr = \"127.0.0.2\"\n" +
		"server {\n bootstrap_expect = 1\n}\n' >/run/other/berth.hcl")
	m.must("berth tls init -key-saved -id s1 -dir /run/other")
	m.must("systemd-run --unit other berth agent -config /run/other")
	const other = " -address unix:///run/other/data/berth.sock"
	token := strings.TrimSpace(m.await("berth node join-token create" + other))

	m.must(`sed -i '/^server {/,$d' /etc/berth/berth.hcl`)
	m.must("printf 'BERTH_ARGS=-join 127.0.0.2:4747 -name by-default\\nBERTH_JOIN_TOKEN=" + token +
		"\\n' >/etc/default/berth")
	m.must("systemctl enable --now berth")
	m.await("berth node status" + other + " | grep 'by-default.*ready'")
	m.must("test -s /etc/berth/tls.hcl")

	m.must("dpkg -P berth && systemctl stop other && rm -r /run/other")
}

// convert makes a job of a compose file with the program of the package. The job is valid.
func (m *machine) convert() {
	m.t.Helper()
	m.must("berth-convert compose -out /run/shop.hcl " + examples + "shop.yaml")
	expect(m.t, m.must("berth job validate /run/shop.hcl"), `The job "shop" is valid`)
	m.must("rm /run/shop.hcl")
}
