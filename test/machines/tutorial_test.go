package machines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

func TestTutorial_TwoTeams(t *testing.T) { testPage(t, "tutorials/two-teams.md", "") }

func TestTutorial_Database(t *testing.T) {
	servers, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		t.Fatal(err)
	}
	_, noUser := user.Lookup("postgres")
	_, noClient := exec.LookPath("psql")
	if len(servers) == 0 || noUser != nil || noClient != nil {
		kit.SkipLacking(t, "PostgreSQL of Debian: a server in /usr/lib/postgresql, psql and the user postgres")
	}
	testPage(t, "tutorials/database.md", "")
}

// tour is the heading of a short tutorial in a page of a subject.
const tour = "## A tour of five minutes"

// The README shows commands without their outputs. Each one succeeds.
func TestReadme_FiveMinutes(t *testing.T) {
	needs(t, "jq", "pkill")
	testPage(t, "../README.md", "## Five minutes")
}

func TestTutorial_Services(t *testing.T) {
	needs(t, "jq")
	testPage(t, "services.md", tour)
}

func TestTutorial_Consul(t *testing.T) {
	needs(t, "/usr/bin/python3", "curl", "jq")
	testPage(t, "consul.md", tour)
}

func TestTutorial_Mesh(t *testing.T) {
	needs(t, "/usr/bin/perl", "curl", "jq", "iptables")
	testPage(t, "mesh.md", tour)
}

// needs skips a test on a machine that lacks a program of the page.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		_, err := exec.LookPath(p)
		if err != nil {
			kit.SkipLacking(t, p)
		}
	}
}

// testPage tests that the commands of a tutorial have the outputs that its page shows, word for word but for
// IDs, times and widths of columns. With a heading, the tutorial is that part of the page.
func testPage(t *testing.T, name, heading string) {
	t.Helper()
	t.Parallel() // it waits for most of its time
	program := os.Getenv("BERTH_BIN")
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes namespaces and mounts")
	}
	if program == "" {
		kit.SkipLacking(t, "a built binary: BERTH_BIN")
	}
	page, err := filepath.Abs(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "tutorial")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		if err != nil {
			t.Error(err)
		}
	})

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "tutorial", dir, program, page, heading)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	runtime.LockOSThread() // the death signal is bound to it
	defer runtime.UnlockOSThread()
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	// The page promises ten minutes, with those in which a person reads it. The load of the machine decides how
	// much of them the commands need here, so it fails nothing.
	t.Logf("the commands took %s", time.Since(begun))
}

// tutorial is a page in a machine of its own. The ports of its agent are those of the page.
type tutorial struct {
	dir   string
	terse bool      // the page shows no outputs
	agent *exec.Cmd // once it is started
	shell io.Writer // takes commands
	out   *bufio.Scanner
}

// runTutorial runs the blocks of a page. It is pid 1 of its namespaces. Its arguments are a directory, the
// program berth, the page and the heading of the part to run, "" for the whole page.
func runTutorial(args []string) error {
	tut := &tutorial{dir: args[0], terse: filepath.Base(args[2]) == "README.md"}
	err := tut.prepare(args[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}

	blocks := blocksOf(part(string(text), args[3]))
	if len(blocks) == 0 {
		return errors.New("the page has no commands")
	}
	for _, b := range blocks {
		b.commands = tut.fill(b.commands)
		err := tut.run(b)
		if err != nil {
			log, _ := os.ReadFile(tut.log())
			return fmt.Errorf("%w\n--- the agent:\n%s", err, log[max(0, len(log)-4000):])
		}
	}
	_ = tut.agent.Process.Signal(unix.SIGTERM)
	return tut.agent.Wait()
}

func (tut *tutorial) log() string { return filepath.Join(tut.dir, "agent.log") }

// prepare makes what a reader has after a clone and a build, and starts the reader's shell there.
func (tut *tutorial) prepare(program string) error {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		return err
	}
	err = errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""), // networks of allocations have files there
		run("ip", "link", "set", "lo", "up"),
		// The network of the machine. The kernel may lack the kind dummy.
		run("ip", "link", "add", "eth0", "type", "bridge"),
		run("ip", "address", "add", "10.9.9.1/24", "dev", "eth0"),
		run("ip", "link", "set", "eth0", "up"),
		os.Mkdir(filepath.Join(tut.dir, "bin"), 0o755),
		os.Symlink(program, filepath.Join(tut.dir, "bin", "berth")),
		os.Symlink(examples, filepath.Join(tut.dir, "examples")),
		tut.addConsul(),
	)
	if err != nil {
		return err
	}

	cmd := exec.Command("bash")
	cmd.Dir = tut.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BERTH_") && !strings.HasPrefix(v, "NOMAD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+tut.dir, "BASH_ENV=", "LC_ALL=C", tut.path())
	tut.shell, err = cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	tut.out = bufio.NewScanner(out)
	err = cmd.Start()
	if err != nil {
		return err
	}
	_, _, err = tut.execute(`sudo() { "$@"; }`)
	return err
}

// addConsul adds the program consul that the environment names, if any.
func (tut *tutorial) addConsul() error {
	program := os.Getenv("CONSUL_BIN")
	if program == "" {
		return nil
	}
	return os.Symlink(program, filepath.Join(tut.dir, "bin", "consul"))
}

// path is the variable by which a reader finds the installed programs.
func (tut *tutorial) path() string {
	return "PATH=" + filepath.Join(tut.dir, "bin") + ":" + os.Getenv("PATH")
}

// startsAgent matches a block with the command of an agent.
var startsAgent = regexp.MustCompile(`(?m)^(sudo )?(\./bin/)?berth agent `)

// run runs a block, and compares its output with that of the page.
func (tut *tutorial) run(b block) error {
	if startsAgent.MatchString(b.commands) {
		return tut.start(b)
	}
	got, code, err := tut.execute(b.commands)
	if err != nil {
		return err
	}

	fails := strings.Contains(b.output, "Error: ")
	if (code != 0) != fails {
		return fmt.Errorf("exit code %d of\n%s\nwith the output\n%s", code, b.commands, got)
	}
	if !tut.terse && !sameOutput(got, b.output) {
		return fmt.Errorf("the commands\n%s\nhave the output\n%s\nthe page shows\n%s", b.commands, got, b.output)
	}
	return nil
}

// fill puts the values into the place of the words for which a reader takes those of their outputs.
func (tut *tutorial) fill(commands string) string {
	log, _ := os.ReadFile(tut.log()) // there is none before the first start
	data := regexp.MustCompile(`(?m)^Data: +(\S+)$`).FindSubmatch(log)
	if data != nil {
		commands = strings.ReplaceAll(commands, "-data-dir DATA", "-data-dir "+string(data[1]))
	}
	const newest = "$(./bin/berth job allocs -json counter | jq -r 'map(select(.DesiredStatus == \"run\"))[0].ID')"
	return strings.ReplaceAll(commands, " ALLOC ", " "+newest+" ")
}

// start runs the block of the agent, which is in a terminal of its own, and waits until it has a ready node.
func (tut *tutorial) start(b block) error {
	if tut.agent != nil {
		_ = tut.agent.Wait() // the page has killed it
	}
	log, err := os.Create(tut.log())
	if err != nil {
		return err
	}
	script := "make() { :; }; sudo() { exec \"$@\"; }\n" + b.commands
	tut.agent = exec.Command("bash", "-c", script)
	tut.agent.Dir = tut.dir
	tut.agent.Env = append(os.Environ(), "TMPDIR="+tut.dir, tut.path())
	tut.agent.Stdout = log
	tut.agent.Stderr = log
	err = tut.agent.Start()
	if err != nil {
		return err
	}

	health := `curl -s -o /dev/null -w '%{http_code}' localhost:4746/v1/agent/health?type=client`
	if strings.Contains(b.commands, "consul agent") { // it may answer only after the node has registered
		health = `berth node status -self -json | grep -q consul.version && echo 200`
	}
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		got, _, err := tut.execute(health)
		if err != nil || strings.HasPrefix(got, "200") {
			return err
		}
	}
	return errors.New("the agent is not ready")
}

// endOfBlock is before the exit code of a block in the output of the shell.
const endOfBlock = "--- end of the block: "

// execute runs commands in the shell of the reader.
func (tut *tutorial) execute(commands string) (out string, code int, err error) {
	_, err = fmt.Fprintf(tut.shell, "{ %s\n} 2>&1; printf '\\n%s%%s\\n' $?\n", commands, endOfBlock)
	if err != nil {
		return "", 0, err
	}
	for tut.out.Scan() {
		text, ended := strings.CutPrefix(tut.out.Text(), endOfBlock)
		if ended {
			code, err = strconv.Atoi(text)
			return out, code, err
		}
		out += tut.out.Text() + "\n"
	}
	return "", 0, errors.Join(errors.New("the shell has ended"), tut.out.Err())
}

// part returns the part of a page below a heading of the second level, and the whole page for "".
func part(page, heading string) string {
	if heading == "" {
		return page
	}
	_, below, _ := strings.Cut(page, "\n"+heading+"\n")
	below, _, _ = strings.Cut(below, "\n## ")
	return below
}

// block is some commands of a page, with their output if the page shows it.
type block struct{ commands, output string }

// blocksOf returns the indented blocks of a page. The fenced text that follows one is its output.
func blocksOf(page string) (all []block) {
	indented := false // the last line was of a block
	fence := ""       // the first line of the fence that is open
	for line := range strings.Lines(page) {
		command, indents := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```") && fence == "":
			fence = strings.TrimSpace(line)
		case strings.HasPrefix(line, "```"):
			fence = ""
		case fence == "```text" && len(all) > 0:
			all[len(all)-1].output += line
		case fence != "":
		case indents && indented:
			all[len(all)-1].commands += command
		case indents:
			all = append(all, block{commands: command})
		}
		indented = indents && fence == ""
	}
	return all
}

// variable are the parts of an output that differ from run to run.
var variable = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z( \((in )?[0-9dhms]+( ago)?\))?`), "TIME"},
	{regexp.MustCompile(`vol-[0-9a-f-]+`), "vol-ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`curl: \((52|56)\) .*`), "curl: the proxy closes the connection"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9hms]+ ago\b`), "AGO"},
	{regexp.MustCompile(`\bin \d[0-9dhms]*\b`), "IN"},
	{regexp.MustCompile(`(?m)^ +\d+\.\ds `), "SECONDS "},
	{regexp.MustCompile(`  +`), "  "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// sameOutput reports whether an output is as the page shows it. "..." in a line of its own stands for any
// lines.
func sameOutput(got, want string) bool {
	host, _ := os.Hostname()
	got = strings.ReplaceAll(got, " "+host+" ", " vm ")
	for _, v := range variable {
		got = v.pattern.ReplaceAllString(got, v.word)
		want = v.pattern.ReplaceAllString(want, v.word)
	}
	pattern := regexp.QuoteMeta(strings.TrimSpace(want))
	pattern = strings.ReplaceAll("\n"+pattern+"\n", "\n\\.\\.\\.\n", "\n(?:.*\n)*?")
	return regexp.MustCompile(`^` + pattern + `$`).MatchString("\n" + strings.TrimSpace(got) + "\n")
}

// Each part of the comparison of outputs finds a difference.
func TestTutorial_ComparesOutputs(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"Name = a\n", "Name = a\n", true},
		{"Name = a\n", "Name = b\n", false},
		{"ID = 189f6648-f6ad-bc40-4a2e-a66ac84e25a5\n", "ID = 00000000-f6ad-bc40-4a2e-a66ac84e25a5\n", true},
		{"  0.0s  x\n  9.1s  done\n", "...\n   1.5s  done\n", true},
		{"  9.1s  failed\n", "...\n   1.5s  done\n", false},
		{"a   1s ago\n", "a  12s ago\n", true},
		{"a  in 1d  b\n", "a  in 23h59m  b\n", true},
		{"a  in use  b\n", "a  in 23h59m  b\n", false},
		{"a\nb\n", "a\n", false},
		{"", "", true},
		{"a\n", "", false},
	} {
		if got := sameOutput(c.got, c.want); got != c.same {
			t.Errorf("%q beside %q: same is %t, want %t", c.got, c.want, got, c.same)
		}
	}
	blocks := blocksOf("text\n\n    a\n    b\n\n```text\nout\n```\n\n```hcl\nx {\n    y\n}\n```\n\n    c\n")
	if len(blocks) != 2 || blocks[0] != (block{"a\nb\n", "out\n"}) || blocks[1] != (block{"c\n", ""}) {
		t.Errorf("got the blocks %q", blocks)
	}
}

// The files that a page shows are those that its reader has. A part of a file is shown with its indentation.
func TestTutorial_ShowsItsFiles(t *testing.T) {
	fence := regexp.MustCompile("(?s)```(?:hcl|yaml)\n(.*?)```")
	for _, c := range []struct {
		page, files string
		shown       int
	}{
		{"tutorials/two-teams.md", "two-teams/*", 2},
		{"tutorials/database.md", "database/*", 2},
		{"coming-from-docker.md", "shop.*", 4},
	} {
		page, err := os.ReadFile(filepath.Join("../../docs", c.page))
		if err != nil {
			t.Fatal(err)
		}
		shown := fence.FindAllStringSubmatch(string(page), -1)
		if len(shown) != c.shown {
			t.Errorf("%s shows %d files, want %d", c.page, len(shown), c.shown)
		}
		for _, m := range shown {
			if !isInFiles(t, c.files, m[1]) {
				t.Errorf("%s shows a text that is in none of %s:\n%s", c.page, c.files, m[1])
			}
		}
	}
}

// isInFiles reports whether an example is the text, or has it as a part with its indentation.
func isInFiles(t *testing.T, pattern, text string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../../examples", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		part := strings.HasPrefix(text, " ") && strings.Contains(string(file), "\n"+text)
		if string(file) == text || part {
			return true
		}
	}
	return false
}
