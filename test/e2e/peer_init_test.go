package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
	"berth/test/consultest"
	"berth/test/kit"
)

// peerBinary is the peer's command line, see scripts/peer.sh.
func peerBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PEER_BIN")
	if path == "" {
		kit.SkipLacking(t, "the peer's command line: PEER_BIN=$(scripts/peer.sh) names it")
	}
	return path
}

// runInitFile writes an example file with `job init` of the peer and its options, and runs the file with
// `job run` of the peer, which waits for the deployment.
func (a *agent) runInitFile(t *testing.T, options ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.hcl")
	for _, args := range [][]string{append([]string{"init"}, append(options, file)...), {"run", file}} {
		cmd := exec.CommandContext(t.Context(), peerBinary(t), append([]string{"job"}, args...)...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("NOMAD_ADDR=http://127.0.0.1:%d", a.http))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the peer's job %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// checkDeployed checks that the deployment of a job was successful, with one healthy allocation in each
// group.
func (a *agent) checkDeployed(job string, groups ...string) {
	a.t.Helper()
	all, err := get[[]*structs.Deployment](a, "/v1/job/"+job+"/deployments")
	if err != nil || len(all) != 1 || all[0].Status != "successful" || len(all[0].TaskGroups) != len(groups) {
		a.t.Fatalf("the deployments are %+v, %v", all, err)
	}
	for _, name := range groups {
		if g := all[0].TaskGroups[name]; g == nil || g.HealthyAllocs != 1 {
			a.t.Errorf("the deployment of group %s is %+v", name, g)
		}
	}
}

// signedToken is the output of the example: its token has three parts.
var signedToken = regexp.MustCompile(`^token\n[\w-]+\.[\w-]+\.[\w-]+\nready\n`)

// TestPeersExampleFile_RunsAsItIsWritten runs the files of a new user of the peer. The image has the name of
// the file: the tests' program in place of a database, at the database's port. The task has a token of its
// identity.
func TestPeersExampleFile_RunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	peerBinary(t)
	d := dockertest.StartBridged(t)
	d.Import("redis:7", `ENTRYPOINT ["/program", "out:token", "env:NOMAD_TOKEN", "serve:6379", "trap:0"]`)
	a := newDockerAgent(t, d, `network_interface = "lo"`).withKeyring()
	a.start()
	defer a.explainFailure("example")
	for _, options := range [][]string{nil, {"-short"}} {
		a.runInitFile(t, options...)
		a.checkDeployed("example", "cache")
		alloc := a.awaitRunning("example", 1)[0]
		output := a.awaitOutput(alloc.ID, "token\n", "\nready\n")
		if !signedToken.MatchString(output) {
			t.Errorf("the task writes %q, which has no token", output)
		}
		row := decode[structs.Allocation](t, a.must("alloc", "status", "-json", alloc.ID))
		address := row.AllocatedResources.Shared.Ports[0].HostAddr()
		eventually(t, "the port of the example answers", func() error {
			return d.Inside(func() error { return checkDatabase(address) })
		})
		a.must("job", "stop", "-purge", "example")
	}
}

// checkDatabase returns nil if the stand-in of the database answers at an address.
func checkDatabase(address string) error {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "tcp 6379\n" {
		err = fmt.Errorf("it says %q", line)
	}
	return err
}

// runCounting stands in for the counting service of the peer's example: it answers each request with a number
// and its allocation.
func runCounting(address string) int {
	var requests atomic.Int64
	err := http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%d %s\n", requests.Add(1), os.Getenv("NOMAD_ALLOC_ID"))
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// runDashboard stands in for the dashboard of the peer's example: it answers with what the counting service
// says, over a new connection for each request.
func runDashboard(address string) int {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	err := http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer, err := client.Get(os.Getenv("COUNTING_SERVICE_URL"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		_, _ = io.Copy(w, answer.Body)
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// importCountdash gives a daemon the images of the peer's example of the service mesh by their names, with
// this program in place of theirs. The counting service listens on its loopback interface alone, so nobody
// reaches it but its proxy.
func importCountdash(t *testing.T, d *dockertest.Daemon) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/program": self}
	d.ImportFiles("hashicorpdev/counter-api:v3", files,
		`ENTRYPOINT ["/program", "counting", "127.0.0.1:9001"]`)
	d.ImportFiles("hashicorpdev/counter-dashboard:v3", files,
		`ENTRYPOINT ["/program", "dashboard", ":9002"]`)
}

// TestPeersExampleFile_OfTheMeshRunsAsItIsWritten runs the files of a new user of the peer's service mesh:
// two containers, each with a proxy that the file does not have. The proxies are those of Consul. The
// dashboard answers at its port of the node, and reaches the counting service through both proxies, once an
// intention allows it.
func TestPeersExampleFile_OfTheMeshRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	peerBinary(t)
	if !kit.InOwnNetwork(t, "iptables", "dockerd") {
		return
	}
	c := consultest.Start(t, consultest.Options{ACLs: true, Server: true})
	d := dockertest.Start(t)
	importCountdash(t, d)
	a := newDockerAgent(t, d).startInMesh(c)
	defer a.explainFailure("countdash")
	for _, options := range [][]string{{"-connect"}, {"-connect", "-short"}} {
		intend(t, c, "count-dashboard", "count-api", api.IntentionActionDeny)
		a.runInitFile(t, options...)
		a.checkDeployed("countdash", "api", "dashboard")
		counting := a.allocOf("countdash", "api")
		dashboard := a.allocOf("countdash", "dashboard")
		awaitPassing(t, c, "count-api-sidecar-proxy", 1)
		awaitPassing(t, c, "count-dashboard-sidecar-proxy", 1)
		awaitDashboard(t, "502 ")
		intend(t, c, "count-dashboard", "count-api", api.IntentionActionAllow)
		awaitDashboard(t, " "+counting.ID)
		for _, alloc := range []*structs.Allocation{counting, dashboard} {
			checkTasksRun(t, alloc, 2)
		}
		a.must("job", "stop", "-purge", "countdash")
		for _, alloc := range []*structs.Allocation{counting, dashboard} {
			a.checkNetworkGone(alloc.ID)
		}
		checkContainersGone(t, d)
	}
}

// checkTasksRun checks that the tasks of an allocation run since their first start.
func checkTasksRun(t *testing.T, alloc *structs.Allocation, want int) {
	t.Helper()
	if len(alloc.TaskStates) != want {
		t.Errorf("allocation %s has %d tasks, want %d", alloc.Name, len(alloc.TaskStates), want)
	}
	for name, s := range alloc.TaskStates {
		if s.State != structs.TaskRunning || s.Restarts != 0 {
			t.Errorf("task %s of %s is %s after %d restarts", name, alloc.Name, s.State, s.Restarts)
		}
	}
}

// awaitDashboard waits until the dashboard answers at its port of the node, with a text in the status or the
// body.
func awaitDashboard(t *testing.T, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	eventually(t, fmt.Sprintf("the dashboard answers with %q", text), func() error {
		answer, err := client.Get("http://" + meshNodeIP + ":9002/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if got := answer.Status + "\n" + string(body); err == nil && !strings.Contains(got, text) {
			err = errors.New(got)
		}
		return err
	})
}
