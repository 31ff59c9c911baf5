package machines

import (
	"cmp"

	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// firstMinute is the time within which a person reads what is wrong.
const firstMinute = time.Minute

// patience bounds the repetitions of a command: a person, too, repeats one that came too early.
const patience = 2 * time.Minute

// numbers has the machines, with the last parts of their addresses.
var numbers = map[string]string{"s1": "1", "s2": "2", "s3": "3", "n1": "11", "n2": "12"}

// world runs the commands. It is pid 1 of its namespaces.
type world struct {
	dir       string
	program   string
	site      site
	siteName  string
	pids      map[string]int      // of the machines
	forwarder *forwarder          // nil: a switch
	outputs   map[string]string   // by what README writes in their place
	remedy    func(string) string // of the fault, once it was read
}

// runWorld makes the machines and runs the commands. Its arguments are its directory, the program berth,
// its site, and the commands.
func runWorld(args []string) error {
	w := &world{
		dir:      args[0],
		program:  args[1],
		site:     sites[args[2]],
		siteName: args[2],
		pids:     map[string]int{},
		outputs:  map[string]string{},
	}
	if w.site.links != nil {
		w.forwarder = newForwarder(*w.site.links)
	}
	err := w.prepare()
	if err != nil {
		return err
	}
	err = w.runSite(args[3:])
	if err != nil {
		return errors.Join(err, w.logs())
	}
	return nil
}

// runSite runs the commands. With them the cluster is complete, or the site has its fault and its remedy
// makes the cluster complete.
func (w *world) runSite(lines []string) (err error) {
	if w.site.fault != nil {
		lines, err = w.meetFault(lines)
		if err != nil || w.site.fault.remedy == nil {
			return err
		}
		w.remedy = w.site.fault.remedy
	}
	err = w.runAll(lines)
	if err == nil {
		err = w.check()
	}
	if err == nil && w.site.then != nil {
		err = w.site.then(w)
	}
	if err != nil {
		return err
	}
	return w.cleanUp()
}

// prepare makes the machines and the network that connects them.
func (w *world) prepare() error {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		run("ip", "link", "set", "lo", "up"),
		run("ip", "link", "add", "switch", "type", "bridge"),
		run("ip", "link", "set", "switch", "up"),
	)
	for name := range numbers {
		if err == nil {
			err = w.powerOn(name)
		}
	}
	return err
}

// meetFault runs the commands up to the one that does not do what README says, and verifies what a person
// reads there. It returns this command and those after it. Its agent has ended.
func (w *world) meetFault(lines []string) (left []string, err error) {
	fault := w.site.fault
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, fault.at) })
	if at < 0 {
		return nil, fmt.Errorf("README has no command %q", fault.at)
	}
	err = w.runAll(lines[:at])
	if err != nil {
		return nil, err
	}

	machine, command := w.fill(lines[at])
	isAgent := strings.HasSuffix(command, "&")
	if isAgent {
		_, err = w.onMachine(machine, command)
		command = "cat " + w.log(machine)
	}
	if err == nil {
		err = w.awaitWords(machine, command, fault.says)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", lines[at], err)
	}
	if isAgent {
		err = w.kill(machine)
	}
	return lines[at:], err
}

// awaitWords repeats a command until its output has all words.
func (w *world) awaitWords(machine, command string, all []string) error {
	for limit := time.Now().Add(firstMinute); ; time.Sleep(200 * time.Millisecond) {
		out, err := w.onMachine(machine, command)
		said := fmt.Sprint(out, err)
		missing := slices.IndexFunc(all, func(words string) bool { return !strings.Contains(said, words) })
		if missing < 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s on %s does not say %q: %s", command, machine, all[missing], said)
		}
	}
}

// kill ends the agent of a machine, if it runs, without a word to it.
func (w *world) kill(machine string) error {
	const find = "pgrep -xf 'berth agent .*'"
	_, err := w.repeat(machine, "! "+find+" || { kill -9 $("+find+"); false; }")
	return err
}

// powerOn starts a machine and connects it.
func (w *world) powerOn(name string) error {
	cmd := exec.Command("/proc/self/exe", "machine", name, w.siteName, filepath.Base(w.dir))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS,
	}
	if w.site.container {
		all := []syscall.SysProcIDMap{{Size: 1 << 16}}
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = all
		cmd.SysProcAttr.GidMappings = all
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	err = cmd.Start()
	if err != nil {
		return err
	}
	_, err = ready.Read(make([]byte, 1))
	if err != nil {
		return fmt.Errorf("the machine %s does not start: %w", name, err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	w.pids[name] = cmd.Process.Pid
	inside := []string{"nsenter", "-t", pid, "-n", "ip"}
	if w.forwarder != nil {
		err = w.forwarder.connect(name, "to-"+name)
		if err == nil {
			err = run("ip", "link", "set", "to-"+name, "netns", pid, "name", "eth0")
		}
	} else {
		err = errors.Join(
			run("ip", "link", "add", "to-"+name, "type", "veth", "peer", "name", "eth0", "netns", pid),
			run("ip", "link", "set", "to-"+name, "master", "switch", "up"),
		)
	}
	err = errors.Join(
		err,
		run(append(inside, "link", "set", "eth0", "up")...),
		// nodad: an address of IPv6 can be used at once.
		run(append(inside, "addr", "add", w.site.address(name)+w.site.bits, "dev", "eth0", "nodad")...),
	)
	for _, command := range w.site.more {
		words := strings.Fields(strings.ReplaceAll(command, "NUMBER", numbers[name]))
		err = errors.Join(err, run(append(inside, words...)...))
	}
	return err
}

// runMachine is the first process of a machine. Its arguments are the name of the machine, its site, and
// the parent of the cgroups of its tasks: all machines share those of one kernel.
func runMachine(args []string) error {
	s := sites[args[1]]
	err := errors.Join(
		run("ip", "link", "set", "lo", "up"),
		unix.Sethostname([]byte(cmp.Or(s.host, args[0]))),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""),
		unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, ""),
		os.Mkdir("/run/etc", 0o755),
		run("cp", "-a", "/etc/.", "/run/etc"),
		os.RemoveAll("/run/etc/berth"),
		unix.Mount("/run/etc", "/etc", "", unix.MS_BIND, ""),
		os.Mkdir("/etc/berth", 0o755),
		os.WriteFile("/etc/machine-id", fmt.Appendf(nil, "c1%030s\n", numbers[args[0]]), 0o444),
		os.WriteFile("/etc/berth/cgroup.hcl", fmt.Appendf(nil,
			"client {\n  drivers {\n    exec {\n      cgroup_parent = %q\n    }\n  }\n}\n", args[2]), 0o644),
	)
	if err != nil {
		return err
	}
	if s.redirects {
		listener, err := net.Listen("tcp", redirecting)
		if err != nil {
			return err
		}
		go func() {
			_ = http.Serve(listener, http.HandlerFunc(redirect)) // it ends with the machine
		}()
	}
	_, err = os.Stdout.WriteString("ready\n")
	if err != nil {
		return err
	}
	for { // pid 1 reaps what agents leave
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// redirect answers as a proxy that leads from http to the HTTP API of the agent of its machine.
func redirect(w http.ResponseWriter, req *http.Request) {
	http.Redirect(w, req, "https://127.0.0.1:4746"+req.URL.RequestURI(), http.StatusMovedPermanently)
}

// runAll runs the commands in their order.
func (w *world) runAll(lines []string) error {
	for _, line := range lines {
		machine, command := w.fill(line)
		if w.pids[machine] == 0 {
			return fmt.Errorf("the command %q names no machine", line)
		}
		out, err := w.repeat(machine, command)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		for role, word := range map[string]string{"server": "SERVER_TOKEN", "node": "NODE_TOKEN"} {
			if strings.HasPrefix(command, "berth "+role+" join-token create") {
				w.outputs[word] = strings.TrimSpace(out)
			}
		}
	}
	return nil
}

// fill returns the machine of a command of README, and the command as a person types it at the site.
func (w *world) fill(line string) (machine, command string) {
	machine, command, _ = strings.Cut(line, "# ")
	command = strings.ReplaceAll(command, documented+":4747", net.JoinHostPort(w.site.address("s1"), "4747"))
	for word, output := range w.outputs {
		command = strings.ReplaceAll(command, word, output)
	}
	agent, isAgent := strings.CutSuffix(command, "&")
	if isAgent {
		command = agent + w.site.log + "&"
	}
	return machine, command
}

// repeat runs a command until it succeeds.
func (w *world) repeat(machine, command string) (out string, err error) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(200 * time.Millisecond) {
		out, err = w.onMachine(machine, command)
		if err == nil {
			return out, nil
		}
	}
	return "", err
}

// onMachine runs a command line in a shell of a machine. The output of one in the background is a log.
func (w *world) onMachine(machine, command string) (out string, err error) {
	if w.remedy != nil {
		command = strings.ReplaceAll(w.remedy(command), "MACHINE", machine)
	}
	pid := strconv.Itoa(w.pids[machine])
	spaces := []string{"-t", pid, "-m", "-u", "-i", "-n", "-p"}
	if w.site.container {
		spaces = append(spaces, "-U")
	}
	cmd := exec.Command("nsenter", append(spaces, "sh", "-c", "cd "+w.source()+" && "+command)...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(w.program)+":"+os.Getenv("PATH"))
	if w.site.redirects {
		cmd.Env = append(cmd.Env, "BERTH_ADDR=http://"+redirecting)
	}
	if !strings.HasSuffix(command, "&") {
		text, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return string(text), err
	}
	log, err := os.OpenFile(w.log(machine), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	cmd.Stdout = log
	cmd.Stderr = log
	return "", errors.Join(cmd.Run(), log.Close())
}

// source is the directory of the examples.
func (w *world) source() string {
	dir, _ := filepath.Abs("../..") // of this package; there is no error where the test has begun
	return dir
}

func (w *world) log(machine string) string { return filepath.Join(w.dir, machine+".log") }

// check verifies that the cluster works, and that it is closed to a node without a certificate.
func (w *world) check() error {
	err := w.works()
	if err != nil {
		return err
	}
	url := "http://" + net.JoinHostPort(w.site.address("s1"), "4746")
	_, err = w.repeat("n1", "! berth node status -address "+url)
	if err != nil {
		return fmt.Errorf("on n1: %s answers: %w", url, err)
	}
	return nil
}

// works verifies that the cluster is complete, and that the job writes.
func (w *world) works() error {
	for _, c := range []struct{ machine, command string }{
		{"s1", `test "$(berth operator raft list-peers -json | grep -c '"Voter": true')" = 3`},
		{"s2", `test "$(berth node status | grep -c ready)" = 2`},
		{"s3", `env -u BERTH_ADDR berth operator gossip keyring list | grep -q '3 of 3'`},
		{"s1", `berth volume claim list -volume counter | grep -q counter`},
	} {
		_, err := w.repeat(c.machine, c.command)
		if err != nil {
			return fmt.Errorf("on %s: %s: %w", c.machine, c.command, err)
		}
	}
	return nil
}

// cleanUp ends the tasks and their mounts in order, so that nothing of them outlives the namespaces.
func (w *world) cleanUp() error {
	for _, command := range []string{
		"berth job stop -purge counter",
		"berth volume delete counter",
		"berth job stop -purge hostpath",
	} {
		_, err := w.repeat("s1", command)
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// logs returns the ends of the logs of the agents.
func (w *world) logs() (err error) {
	const most = 4000
	for name := range numbers {
		text, readErr := os.ReadFile(w.log(name))
		if readErr == nil {
			err = errors.Join(err, fmt.Errorf("--- %s:\n%s", name, text[max(0, len(text)-most):]))
		}
	}
	return err
}

func run(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", args, err, out)
	}
	return nil
}
