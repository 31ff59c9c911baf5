package machines

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// documented is the address of s1 in README.
const documented = "10.0.0.1"

// redirecting is the address of the proxy that redirects.
const redirecting = "127.0.0.1:8080"

// site is a place with machines: their network, and what else differs from machines of ours.
type site struct {
	network string   // the first part of the addresses
	bits    string   // their length
	more    []string // ip commands on each machine; NUMBER is the number of the machine

	links     *links // nil: a switch connects the machines
	host      string // the host name of all machines; "": each has its own
	container bool   // each machine is in a user namespace, as a container without privileges
	redirects bool   // the commands call a proxy, which redirects to the HTTP API
	log       string // what follows the command of an agent: where its log goes

	fault *fault             // in place of a cluster; nil: the cluster is complete
	then  func(*world) error // what happens to the complete cluster; nil: nothing
}

// fault is what a person reads in place of a cluster.
type fault struct {
	at   string   // the beginning of the first command of README that does not do what README says
	says []string // words of its output, or of the log of its agent
	// remedy changes this command as the words say, and those after it. MACHINE is the name of its machine. The
	// cluster is complete then. nil: there is no remedy for these machines.
	remedy func(command string) string
}

const (
	firstAgent   = "s1# berth agent "
	secondServer = "s2# "
)

var byDefaultRoute = []string{"route add default dev eth0"}

var sites = map[string]site{
	"lan":            {network: "10.0.0.", bits: "/24", more: byDefaultRoute},
	"public address": {network: "203.0.113.", bits: "/24", more: byDefaultRoute},
	"docker beside a private NIC": {network: "10.0.0.", bits: "/24", more: []string{
		"link add docker0 type bridge",
		"addr add 172.17.0.1/16 dev docker0",
		"link set docker0 up",
	}},
	"VPN": {network: "192.168.7.", bits: "/24", more: []string{
		"link add wg0 type bridge",
		"addr add 10.8.0.NUMBER/24 dev wg0",
		"link set wg0 up",
		"route add default dev eth0",
	}},
	"VPN without a default route": {network: "192.168.7.", bits: "/24", more: []string{
		"link add wg0 type bridge",
		"addr add 10.8.0.NUMBER/24 dev wg0",
		"link set wg0 up",
	}, fault: &fault{firstAgent, []string{
		"192.168.7.1 (eth0), 10.8.0.1 (wg0): name one of them with -bind (bind_addr), or with advertise",
	}, nil}},
	"IPv6 alone": {network: "2001:db8::", bits: "/64", more: []string{"-6 route add default dev eth0"}},
	"equal host names": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, host: "localhost",
		fault: &fault{secondServer, []string{
			`the server at 10.0.0.1:4748 has the name of this one, "localhost.global"`,
			"give each server a name of its own, with -name (name)",
		}, nameMachine}},
	"user namespace": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, container: true,
		fault: &fault{"s1# berth job run examples/hostpath.hcl", []string{
			"the agent is in a user namespace",
			"run it on the machine itself, or in a container with privileges",
		}, nil}},
	"proxy that redirects": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, redirects: true,
		fault: &fault{"s1# berth server join-token create", []string{
			"http://" + redirecting + " redirects to https://127.0.0.1:4746",
			"a write is never redirected: nothing was changed",
			"if the agent is there, name that address with -address or BERTH_ADDR",
		}, callDirectly}},
	"address that changes at a restart": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, then: renumber},

	"slow network that loses": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, links: &links{
		delay: 50 * time.Millisecond, loss: 0.01, rate: 1 << 20,
	}},
	"flows dropped in silence": {network: "10.0.0.", bits: "/24", more: byDefaultRoute,
		links: &links{remembers: true}, then: forgetFlows},
	"nodes cut from the leader and from each other": {network: "10.0.0.", bits: "/24", more: byDefaultRoute,
		links: &links{}, then: cutNodes},
	"server cut from the leader": {network: "10.0.0.", bits: "/24", more: byDefaultRoute,
		links: &links{}, then: cutServer},
	"servers cut from each other beside the leader": {network: "10.0.0.", bits: "/24", more: byDefaultRoute,
		links: &links{}, then: cutFollowers},
	"log whose reader ends": {network: "10.0.0.", bits: "/24", more: byDefaultRoute, log: "2>&1 | head -n 3 "},
}

// address returns the address of a machine.
func (s site) address(name string) string { return s.network + numbers[name] }

// nameMachine gives an agent a name of its own.
func nameMachine(command string) string {
	return strings.Replace(command, " -join", " -name MACHINE -join", 1)
}

// callDirectly gives a command the address of the agent behind the proxy. The agent asks for a certificate,
// which root of a server makes.
func callDirectly(command string) string {
	const dir, ann = "/run/ann", "/run/ann/global-operator-ann"
	return "{ test -e " + ann + "-ca.pem || { mkdir -p " + dir + " && env -u BERTH_ADDR berth tls cert request -id ann -dir " + dir + "; }; } >/dev/null 2>&1; " +
		"export BERTH_ADDR=https://127.0.0.1:4746 BERTH_CACERT=" + ann + "-ca.pem BERTH_CLIENT_CERT=" + ann + ".pem BERTH_CLIENT_KEY=" + ann + "-key.pem; " + command
}

// renumber gives machines other addresses while their agents do not run: a server, the server that all others
// have joined, and the node with the job. The agent of the node starts last. Its configuration has only the
// former address of the server that it has joined.
func renumber(w *world) error {
	err := w.move("s2")
	if err == nil {
		err = w.kill("n1")
	}
	if err == nil {
		err = w.move("s1")
	}
	if err == nil {
		err = w.awaitWords("s3", "berth operator raft list-peers", []string{"10.0.0.21:4747", "10.0.0.22:4747"})
	}
	if err == nil {
		err = w.move("n1")
	}
	if err == nil {
		err = w.awaitWords("s3", "berth node status -verbose", []string{"10.0.0.211"})
	}
	if err != nil {
		return err
	}
	return w.check()
}

// move kills the agent of a machine, if it runs, and starts it at another address.
func (w *world) move(machine string) error {
	err := w.kill(machine)
	if err != nil {
		return err
	}
	_, err = w.onMachine(machine, fmt.Sprintf("ip addr del %s%s dev eth0 && ip addr add %s2%s%s dev eth0 && "+
		"ip route replace default dev eth0", w.site.address(machine), w.site.bits,
		w.site.network, numbers[machine], w.site.bits))
	if err != nil {
		return err
	}
	_, err = w.onMachine(machine, "berth agent -config /etc/berth &")
	return err
}

// forgetFlows drops all connections in silence. The cluster notices and goes on.
func forgetFlows(w *world) error {
	w.forwarder.forget()
	err := w.workOn()
	if err == nil && w.forwarder.droppedFrames() == 0 {
		err = errors.New("no connection was dropped")
	}
	return err
}

// workOn verifies within a minute that the cluster places a job and gives it its volume.
func (w *world) workOn() error {
	begun := time.Now()
	err := w.runAll([]string{
		"s1# berth job stop -purge counter",
		"s1# berth job run examples/counter.hcl",
	})
	if err == nil {
		err = w.works() // without a call to a machine that is cut away, which waits long
	}
	if took := time.Since(begun); err == nil && took > firstMinute {
		err = fmt.Errorf("the cluster went on after %s", took)
	}
	return err
}

// cutNodes cuts the nodes from the leader and from each other. They reach the other servers, so the cluster
// goes on.
func cutNodes(w *world) error {
	_, err := w.repeat("s1", leads)
	if err != nil {
		return err
	}
	for _, pair := range [][2]string{{"s1", "n1"}, {"s1", "n2"}, {"n1", "n2"}} {
		w.forwarder.cutPair(pair[0], pair[1])
	}
	return w.workOn()
}

// cutServer cuts a server from the leader alone. The health of the servers names it.
func cutServer(w *world) error {
	_, err := w.repeat("s1", leads)
	if err != nil {
		return err
	}
	w.forwarder.cutPair("s1", "s3")
	const health = "berth operator autopilot health 2>&1 | grep -E '^s3[.]|^Error'"
	err = w.awaitWords("s1", health, []string{"s3.global", "no contact", "Error: a server is unhealthy"})
	if err == nil {
		_, err = w.onMachine("s1", "berth job run examples/counter.hcl")
	}
	return err
}

// cutFollowers cuts the two servers from each other that do not lead. Both reach the leader, so the cluster
// goes on, and each reads the keys of the other.
func cutFollowers(w *world) error {
	_, err := w.repeat("s1", leads)
	if err != nil {
		return err
	}
	w.forwarder.cutPair("s2", "s3")
	return w.workOn()
}

// leads succeeds on the server that leads.
const leads = "berth operator raft list-peers | grep -q 's1.* leader'"
