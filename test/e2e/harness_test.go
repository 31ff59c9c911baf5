package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"berth/internal/keyring"
	"berth/structs"
	"berth/test/kit"
	"berth/test/shelf"
)

// binary is the berth under test: that of the environment variable, or built once.
var binary string

const binaryVar = "BERTH_BIN"

func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 2 {
		role = os.Args[1]
	}
	switch role {
	case "shelf":
		os.Exit(shelf.Run(os.Args[2:]))
	case kit.FUSEArg:
		os.Exit(kit.ServeFUSE(os.Args[2:]))
	case "web":
		os.Exit(runWeb(os.Args[2:]))
	case "answer":
		os.Exit(runAnswer(os.Args[2], strings.Join(os.Args[3:], " ")))
	case "echo":
		os.Exit(runEcho(os.Args[2]))
	case "talk":
		os.Exit(runTalk(os.Args[2]))
	case "counting":
		os.Exit(runCounting(os.Args[2]))
	case "dashboard":
		os.Exit(runDashboard(os.Args[2]))
	case "guard":
		os.Exit(runGuard(os.Args[2]))
	case "victim":
		os.Exit(runGuarded(func() int { return runVictim(os.Args[2]) }))
	}
	os.Exit(runGuarded(func() int { return runTests(m) }))
}

// runGuarded runs tests beside their guard.
func runGuarded(run func() int) int {
	err := guarded.start()
	if err != nil {
		fmt.Println("e2e: starting the guard:", err)
		return 1
	}
	code := run()
	if err := guarded.stop(); err != nil {
		fmt.Println("e2e: the guard:", err)
		code = max(code, 1)
	}
	return code
}

func runTests(m *testing.M) int {
	if os.Geteuid() != 0 {
		fmt.Println("e2e: these tests mount file systems and start isolated tasks: " +
			"run them as root, or leave the package out")
		return 1
	}
	binary = os.Getenv(binaryVar)
	if binary == "" {
		dir, err := os.MkdirTemp("", "berth-e2e-bin-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "berth")
		build := exec.Command("make", "-C", filepath.Join("..", ".."), "build", "BIN="+binary)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Printf("building berth: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// seedOf returns and logs the seed of a test's random choices: BERTH_TEST_SEED, which repeats a failed run,
// or a new one.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BERTH_TEST_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("BERTH_TEST_SEED: %v", err)
		}
		seed = given
	}
	t.Logf("BERTH_TEST_SEED=%d", seed)
	return seed
}

// agent is one berth process with all that is needed to restart it.
type agent struct {
	leftovers
	t       testing.TB
	name    string
	program string // the berth that it runs
	http    int
	rpc     int
	serf    int
	args    []string
	ready   func(a *agent) error // the condition that start waits for
	cmd     *exec.Cmd
	log     *os.File
	// elects is set if the servers may elect a leader at any time: there are three.
	elects bool
}

// baseConfig keeps an agent from the Consul of the machine, and from its CNI plugins: the agent would start
// each one for its version, which takes longer than the rest of the start. Tests of networks name their own.
const baseConfig = `consul {
  address = ""
}
client {
  cni_path = "/nonexistent"
}
`

// newAgent makes an agent, not started yet.
func newAgent(t testing.TB, name string, extra ...string) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "be2e-")
	if err != nil {
		t.Fatal(err)
	}
	guarded.watch(t, dir)
	ports := kit.FreePorts(t, 3)
	a := &agent{
		leftovers: newLeftovers(dir),
		t:         t,
		name:      name,
		program:   binary,
		http:      ports[0],
		rpc:       ports[1],
		serf:      ports[2],
		ready:     (*agent).nodeReady,
	}
	a.args = append([]string{"agent", "-data-dir", a.data(), "-bind", "127.0.0.1", "-name", name,
		"-http-port", strconv.Itoa(ports[0]), "-rpc-port", strconv.Itoa(ports[1]), "-serf-port",
		strconv.Itoa(ports[2]), "-config", a.writeFile("base.hcl", baseConfig),
	}, extra...)
	a.log, err = os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.cleanUp)
	return a
}

// withKeyring gives the servers a key-encryption key, without which they sign no identities.
func (a *agent) withKeyring() *agent {
	a.t.Helper()
	key := filepath.Join(a.dir, "keyring")
	err := keyring.NewFileKey().WriteNew(key)
	if err != nil {
		a.t.Fatal(err)
	}
	config := fmt.Sprintf("server {\n  keyring {\n    file = %q\n  }\n}\n", key)
	a.args = append(a.args, "-config", a.writeFile("keyring.hcl", config))
	return a
}

// start starts the process and waits until it is ready.
func (a *agent) start() {
	a.t.Helper()
	a.launch()
	a.awaitReady()
}

// launch starts the process and waits for nothing.
func (a *agent) launch() {
	a.t.Helper()
	a.checkArguments(a.args)
	cmd := exec.Command(a.program, a.args...)
	cmd.Stdout = a.log
	cmd.Stderr = a.log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.cmd = cmd
}

func (a *agent) awaitReady() {
	a.t.Helper()
	eventually(a.t, a.name+" answers", func() error {
		return a.ready(a)
	})
	a.loopDevices() // it learns which node this is
}

// nodeReady returns nil if the agent answers, knows a ready node and has looked for the tasks of its own one:
// until then a node that has started again looks ready from before, and has no allocations.
func (a *agent) nodeReady() error {
	_, err := get[map[string]any](a, "/v1/agent/health?type=client")
	if err != nil {
		return err
	}
	nodes, err := get[[]*structs.NodeListStub](a, "/v1/nodes")
	isReady := func(n *structs.NodeListStub) bool { return n.Status == structs.NodeReady }
	if err == nil && !slices.ContainsFunc(nodes, isReady) {
		err = errors.New("no node is ready")
	}
	return err
}

// kill ends the process without warning, as a crash does.
func (a *agent) kill() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	_ = a.cmd.Wait()
	a.cmd = nil
}

// stop ends the process as an operator does.
func (a *agent) stop() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	cmd := a.cmd
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		a.t.Errorf("%s did not end within two minutes of SIGTERM", a.name)
		_ = cmd.Process.Kill()
		<-done
	}
	a.cmd = nil
}

// run runs a command of the CLI against this agent.
func (a *agent) run(args ...string) (string, error) { return a.runWithInput("", args...) }

// runWithInput is run with a text on the standard input, for a secret: all users see the arguments.
func (a *agent) runWithInput(input string, args ...string) (string, error) {
	a.checkArguments(args)
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("berth %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(),
			stderr.String())
	}
	return stdout.String(), nil
}

// exitCode is the exit code of a command that run has run, 0 for none.
func exitCode(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	return 0
}

// mustFail runs a command that has to fail with an exit code, and checks that its output has each of the
// texts.
func (a *agent) mustFail(code int, texts []string, args ...string) {
	a.t.Helper()
	run := a.runThroughElections
	if code == structs.KindUnavailable.ExitCode() || code == structs.KindTimeout.ExitCode() {
		run = a.run
	}
	_, err := run(args...)
	if exitCode(err) != code {
		a.t.Errorf("berth %s: exit code %d, want %d: %v",
			strings.Join(args, " "), exitCode(err), code, err)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			a.t.Errorf("berth %s: %v\nwant it to say %q",
				strings.Join(args, " "), err, text)
		}
	}
}

// must runs a command that has to succeed.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	out, err := a.runThroughElections(args...)
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return out
}

// decode reads a JSON answer of the CLI.
func decode[T any](t testing.TB, out string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return v
}

// The lines of a job in HCL: its first, its last, and that of its type if it has no health.
var (
	jobHead       = regexp.MustCompile(`(?m)^job "[^"]*" \{$`)
	jobEnd        = regexp.MustCompile(`\n\}\s*$`)
	withoutHealth = regexp.MustCompile(`(?m)^\s*type\s*=\s*"(batch|sys)`)
)

// withQuickHealth makes the allocations of a service healthy as soon as they run, because "job run" waits for
// that. It does not change a job with an update block or another type. The other lines keep their numbers.
func withQuickHealth(file string) string {
	if strings.Contains(file, "update {") || withoutHealth.MatchString(file) || !jobHead.MatchString(file) {
		return file
	}
	return jobEnd.ReplaceAllString(file, "\n  update {\n    min_healthy_time = \"0s\"\n  }\n}\n")
}

// writeFile writes a job or volume file and returns its path.
func (a *agent) writeFile(name, content string) string {
	a.t.Helper()
	content = withQuickHealth(content)
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// cleanUp ends everything of the agent, in any state of the test.
func (a *agent) cleanUp() {
	if a.t.Failed() {
		log, _ := os.ReadFile(a.log.Name())
		if len(log) > 12000 {
			log = log[len(log)-12000:]
		}
		a.t.Logf("the log of %s ends:\n%s", a.name, log)
	}
	a.stop()
	a.log.Close()
	if err := a.end(); err != nil {
		a.t.Error(err)
	}
}

// explainFailure logs the state of a job, if the test has failed.
func (a *agent) explainFailure(job string) {
	if !a.t.Failed() {
		return
	}
	for _, args := range [][]string{{"job", "why", job}, {"job", "allocs", "-json", job}} {
		out, err := a.run(args...)
		a.t.Logf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// processesOf returns the processes whose command line has a path below dir.
func processesOf(dir string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.Contains(cmdline, []byte(dir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// programsOf is processesOf without the copies that a process makes of itself to start a program. Until then,
// a copy has the command line of its parent; the program that it becomes may have another one.
func programsOf(dir string) (pids []int) {
	for _, pid := range processesOf(dir) {
		p, err := procfs.NewProc(pid)
		if err != nil {
			continue
		}
		stat, err := p.Stat()
		if err != nil {
			continue
		}
		own, _ := p.CmdLine()
		if !strings.Contains(strings.Join(own, " "), dir) {
			continue // it was a copy
		}
		parent, err := procfs.NewProc(stat.PPID)
		if err == nil {
			line, _ := parent.CmdLine()
			if slices.Equal(own, line) {
				continue
			}
		}
		pids = append(pids, pid)
	}
	return pids
}

// eventually waits, up to a generous bound, until check returns nil. It polls, because the changes happen in
// other processes: every 50 ms, or after twice the time of a check that is slow. One that starts a command
// would otherwise take a core from what it waits for.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	within(t, 2*time.Minute, what, check)
}

// within is eventually for something that takes a time of its own: limit is the longest wait.
func within(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	err := errors.New("not checked")
	for time.Now().Before(deadline) {
		begin := time.Now()
		err = check()
		if err == nil {
			return
		}
		time.Sleep(max(50*time.Millisecond, 2*time.Since(begin)))
	}
	t.Fatalf("waited without success: %s: %v", what, err)
}
