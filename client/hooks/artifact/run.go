package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/client/drivers/seccomp"
	"berth/client/hooks"
	"berth/client/hooks/artifact/download"
	"berth/structs"
	"berth/structs/validate/taskfiles"
)

// shownDirs are the directories of the machine that every download sees: git and its libraries.
var shownDirs = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"}

// shownSettings are the settings of the machine that a download sees: of names, of certificates, of ssh and
// git. None is secret.
var shownSettings = []string{
	"/etc/ca-certificates", "/etc/crypto-policies", "/etc/gai.conf", "/etc/gitconfig", "/etc/group",
	"/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
	"/etc/pki/tls", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssh/ssh_config",
	"/etc/ssh/ssh_known_hosts", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
}

// executable is the agent's executable in the sandbox.
const executable = "/berth"

// sandboxConfig describes the sandbox of a download into a directory.
func (a *artifacts) sandboxConfig(dir string, insecure bool) (cfg *sandbox.Config, err error) {
	shown := map[string]string{}
	for _, path := range shownDirs {
		shown[path] = path
	}

	var calls sandbox.Filter
	// Without seccomp the other bounds of the sandbox stay.
	if seccomp.Supported() == nil {
		calls, err = seccomp.Restricted()
		if err != nil {
			return nil, err
		}
	}

	cfg = &sandbox.Config{
		Root:      a.cfg.Dir,
		HostPaths: shown,
		Binds: []sandbox.Bind{
			{Source: dir, Target: download.Dir},
			// The executable may be outside of the directories that are shown.
			{Source: a.cfg.Command[0], Target: executable, ReadOnly: true},
		},
		Program: sandbox.Program{
			Driver:  "artifact",
			Where:   "in the sandbox of the download",
			Command: executable,
			// The capacity makes append copy, because all downloads share Command.
			Args:     append(a.cfg.Command[1:len(a.cfg.Command):len(a.cfg.Command)], download.Arg),
			Env:      a.environ(insecure),
			Dir:      download.Dir,
			User:     &nobody,
			Restrict: true,
			Seccomp:  calls != nil,
			Filter:   calls,
			NoFile:   1024,
		},
	}

	for _, path := range append(shownSettings, a.cfg.Settings.extraPaths()...) {
		// The target of a link may be hidden in the sandbox, so the file itself is mounted at the path.
		real, err := filepath.EvalSymlinks(path)
		if err == nil { // else this machine has no such file
			cfg.Binds = append(cfg.Binds, sandbox.Bind{Source: real, Target: path, ReadOnly: true})
		}
	}

	return cfg, nil
}

// environ returns the environment of the process. It has none of the agent's variables that the settings do
// not name, because these may be secret.
func (a *artifacts) environ(insecure bool) []string {
	temp := filepath.Join(download.Dir, download.TempDir)
	env := append(sandbox.RuntimeEnv(2),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		// There git finds no settings of a user.
		"HOME="+temp,
		"TMPDIR="+temp,
		// Nobody answers a question of git.
		"GIT_TERMINAL_PROMPT=0",
		// Other protocols of git read files of the machine, or run any program.
		"GIT_ALLOW_PROTOCOL=http:https:ssh:git")

	if insecure {
		env = append(env, "GIT_SSL_NO_VERIFY=true")
	}

	for name := range strings.SplitSeq(a.cfg.Settings.SetEnvironmentVariables, ",") {
		name = strings.TrimSpace(name)
		value, ok := os.LookupEnv(name)
		if ok {
			env = append(env, name+"="+value)
		}
	}

	return env
}

// request returns the request for an artifact, and the bounds of its tree on the disk. size bounds its files,
// and free all that is there during the download.
func (a *artifacts) request(
	spec *structs.TaskArtifact, size, free download.Bound,
) (*download.Request, bounds, error) {
	kind, err := taskfiles.Getter(spec)
	if err != nil {
		return nil, bounds{}, structs.Invalidf("source: %w", err)
	}

	s := a.cfg.Settings
	networks, err := download.ParseNetworks(s.AllowNetworks)
	if err != nil {
		return nil, bounds{}, structs.Invalidf("client.artifact.allow_networks: %w", err)
	}

	answer, unpacked := s.sizes(kind, size, free)
	// A download that may keep nothing need not start.
	if least := smaller(answer, unpacked); least.Bytes == 0 {
		return nil, bounds{}, excess(least, "nothing more fits (%s)", least.By)
	}

	req := &download.Request{
		Source:   withOptions(spec),
		Mode:     spec.GetterMode,
		Headers:  spec.GetterHeaders,
		Insecure: spec.GetterInsecure,
		Files:    kind == "file",
		Rules: download.Rules{
			Networks:   networks,
			AgentPorts: a.cfg.AgentPorts,
			Silence:    maxSilence,
		},
		Limits: download.Limits{
			Timeout:       s.HTTPReadTimeout,
			MaxSize:       answer,
			UnpackedSize:  unpacked,
			UnpackedFiles: s.DecompressionFileCountLimit,
		},
	}

	// An archive is there beside its files, and names its directories or implies them.
	all := smaller(both(answer, unpacked), free)
	entries := 4*s.DecompressionFileCountLimit + 16
	switch kind {
	case "git":
		req.Limits.Timeout = s.GitTimeout
		// http_max_size bounds a repository with all of its files.
		all = answer
		entries = maxFiles
	case "file":
		err = a.checkFile(spec.GetterSource)
	}
	return req, bounds{all, entries}, err
}

// sizes returns the bounds of an answer of a server, and of the files of an archive. The smallest bound
// counts, and its error names the setting.
func (s Settings) sizes(kind string, size, free download.Bound) (answer, unpacked download.Bound) {
	answer = download.Bound{Bytes: int64(s.HTTPMaxSize), By: "http_max_size of the agent"}
	answer = smaller(answer, smaller(size, free))
	unpacked = download.Bound{
		Bytes: int64(s.DecompressionSizeLimit),
		By:    "decompression_size_limit of the agent",
	}

	unpacked = smaller(unpacked, free)
	if kind != "git" { // its files come as one, which is larger than the parts that it keeps
		unpacked = smaller(unpacked, size)
	}

	return answer, unpacked
}

// withOptions returns the source with the options as its query.
func withOptions(spec *structs.TaskArtifact) string {
	if len(spec.GetterOptions) == 0 {
		return spec.GetterSource
	}
	query := url.Values{}
	for k, v := range spec.GetterOptions {
		query.Set(k, v)
	}
	separator := "?"
	if strings.Contains(spec.GetterSource, "?") {
		separator = "&"
	}
	return spec.GetterSource + separator + query.Encode()
}

// checkFile denies files of the machine that the agent's settings do not name.
func (a *artifacts) checkFile(source string) error {
	// A source has one form or the other, or neither.
	path := strings.TrimPrefix(strings.TrimPrefix(source, "file::"), "file://")
	path, _, _ = strings.Cut(path, "?")
	for _, extra := range a.cfg.Settings.extraPaths() {
		_, ok := below(extra, filepath.Clean(path))
		if ok && filepath.IsAbs(path) {
			return nil
		}
	}
	return structs.Deniedf("source: this node has no file %.200q for artifacts; "+
		"client.artifact.filesystem_isolation_extra_paths names those that it has", path)
}

// watchInterval is the time between two looks at the size of a download.
const watchInterval = 500 * time.Millisecond

// maxSilence bounds the time in which the server of a download sends nothing.
var maxSilence = 2 * time.Minute

// progressInterval is the time between two reports of the size of a download.
var progressInterval = 10 * time.Second

// download fills the scratch directory.
func (a *artifacts) download(
	ctx context.Context, env *hooks.TaskEnv, s *scratch, spec *structs.TaskArtifact,
) (usage, error) {
	if err := sandbox.Supported(); err != nil {
		return usage{}, structs.Preconditionf("this node cannot isolate downloads: %w", err)
	}

	if err := os.MkdirAll(a.cfg.Dir, 0o700); err != nil {
		return usage{}, err
	}

	if err := a.awaitSlot(ctx, env, spec); err != nil {
		return usage{}, err
	}
	defer a.cfg.Slots.running.Release(1)

	free, err := a.freeBound(s.path()) // other downloads have changed it until now
	if err != nil {
		return usage{}, err
	}

	req, most, err := a.request(spec, diskBound(env.AllocEnv), free)
	if err != nil {
		return usage{}, err
	}

	err = a.runWatched(ctx, req, watch{s, most, env.Alloc.ID, shownSource(spec.GetterSource), env.Emit})
	// Files that the download leaves beside its result count, too.
	if err == nil {
		_, err = s.measure(".", most.usage())
	}

	if errors.Is(err, errLarge) {
		err = most.fault()
	}
	if err != nil {
		return usage{}, withSource(spec, err)
	}

	return s.measure(download.Out, most.usage())
}

// runWatched runs a download, watches its size, and ends it after its time.
func (a *artifacts) runWatched(ctx context.Context, req *download.Request, w watch) error {
	late := fmt.Errorf("it is not complete after %s (see the timeouts in client.artifact of the agent)",
		req.Limits.Timeout)
	timed, stop := context.WithTimeoutCause(ctx, req.Limits.Timeout, late)
	defer stop()
	running, end := context.WithCancelCause(timed)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(running, end, w)
	}()
	err := a.runBounded(running, w.scratch, req, w.most.usage())
	// This ends the goroutine. An earlier cause stays.
	end(nil)
	// No report of the watch may follow the last one.
	<-watched
	a.cfg.Progress(w.allocID, "")
	return err
}

// awaitSlot returns when the download may run.
func (a *artifacts) awaitSlot(ctx context.Context, env *hooks.TaskEnv, spec *structs.TaskArtifact) error {
	slots := a.cfg.Slots
	// A download that need not wait reports nothing.
	if slots.running.TryAcquire(1) {
		return nil
	}
	source := shownSource(spec.GetterSource)
	why := fmt.Sprintf("%d other downloads run on this node, and no more at a time", slots.Most)
	a.cfg.Progress(env.Alloc.ID, fmt.Sprintf("task %s waits to download %s: %s", a.task, source, why))
	defer a.cfg.Progress(env.Alloc.ID, "")
	env.Emit(a.progressEvent("Client waits to download artifact %d, %s: %s", a.complete+1, source, why))
	return slots.running.Acquire(ctx, 1)
}

// progressEvent takes the place of the last one about the same artifact.
func (a *artifacts) progressEvent(format string, args ...any) *structs.TaskEvent {
	return &structs.TaskEvent{
		Type:    structs.TaskEventDownloading,
		Message: fmt.Sprintf(format, args...),
		Details: map[string]string{hooks.ProgressKey: fmt.Sprintf("artifact %d", a.complete+1)},
	}
}

// shownSource returns a source without its parts that may be secret: the query, the user, which is often
// a token, and, of a download by HTTP, the path up to the name of the file, which may be signed.
func shownSource(source string) string {
	source, _, _ = strings.Cut(source, "?")
	source = strings.Replace(source, download.UserOf(source), "", 1)
	if path := download.SecretPath(source); path != "" {
		source = strings.Replace(source, path, "/.../", 1)
	}
	return source
}

// watch is what a goroutine needs to know of a download.
type watch struct {
	scratch *scratch
	most    bounds
	allocID string
	source  string
	emit    func(*structs.TaskEvent)
}

// watch ends a download that is too large, and reports how far it is.
func (a *artifacts) watch(ctx context.Context, end context.CancelCauseFunc, w watch) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	reported := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		got, err := w.scratch.measure(".", w.most.usage())
		if errors.Is(err, errLarge) {
			end(w.most.fault())
			return
		}

		free, err := a.freeBound(w.scratch.path())
		// Tasks and other downloads fill the disk, too.
		if err == nil && free.Bytes == 0 {
			end(fmt.Errorf("it does not fit: %s", free.By))
			return
		}

		if time.Since(reported) >= progressInterval {
			reported = time.Now()
			a.report(w, got)
		}
	}
}

// report tells how far a download is.
func (a *artifacts) report(w watch, got usage) {
	size := structs.FormatBytes(got.bytes)
	a.cfg.Progress(w.allocID, fmt.Sprintf("task %s is downloading %s: %s so far", a.task, w.source, size))
	w.emit(a.progressEvent("Client is downloading artifact %d, %s: %s so far", a.complete+1, w.source, size))
}

// runBounded runs the process of a download in a cgroup of its own.
func (a *artifacts) runBounded(ctx context.Context, s *scratch, req *download.Request, most usage) error {
	group, err := a.makeGroup(s, most)
	if err != nil {
		return err
	}
	err = a.runProcess(ctx, s, req, group)
	return a.cfg.Groups.remove(ctx, group, err)
}

// runProcess runs the process of a download until it has ended. It kills the process when ctx ends, and then
// returns the cause.
func (a *artifacts) runProcess(
	ctx context.Context, s *scratch, req *download.Request, group *cgroups.Group,
) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // a sandbox ends with the thread that made it
		defer runtime.UnlockOSThread()
		result <- a.runSandbox(ctx, s, req, group)
	}()
	err := <-result
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// runSandbox starts the process, sends it the request, reads the reply and waits for its end.
func (a *artifacts) runSandbox(
	ctx context.Context, s *scratch, req *download.Request, group *cgroups.Group,
) error {
	cfg, err := a.sandboxConfig(s.path(), req.Insecure)
	if err != nil {
		return err
	}

	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer ours.Close()

	// The process writes there why it ends early.
	said, stderr, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	defer said.Close()

	proc, err := sandbox.Start(cfg, sandbox.Options{
		Command: append(a.cfg.Command[:len(a.cfg.Command):len(a.cfg.Command)], executor.InitArg),
		Stdout:  theirs,
		Stderr:  stderr,
		Group:   group,
	})

	// Without our copies of the ends, reads end with the process.
	err = errors.Join(err, theirs.Close(), stderr.Close())
	if err != nil {
		return err
	}

	stop := context.AfterFunc(ctx, func() { _ = proc.Kill() })
	defer stop()
	// Other processes would see secrets in arguments.
	err = json.NewEncoder(ours).Encode(req)
	var result error
	if err == nil {
		result, err = readReply(ours)
	}

	_ = proc.Kill() // it has nothing left to do
	// The process has ended, and with it the pipe.
	text, _ := io.ReadAll(io.LimitReader(said, maxReply))
	_, _ = proc.Wait()
	if err != nil {
		return fmt.Errorf("the process of the download ended early: %w: %.2000s", err, text)
	}

	return result
}

// readReply reads the result of a download from its process, which the server of a source may have taken
// over.
func readReply(from io.Reader) (result, err error) {
	reply := &download.Reply{}
	err = json.NewDecoder(io.LimitReader(from, maxReply)).Decode(reply)
	if err == nil && reply.Error != "" {
		// The text is shown to users, and the process is not trusted.
		result = errors.New(structs.Cut(reply.Error, maxError))
		if reply.Final {
			result = finalError{result}
		}
	}
	return result, err
}

// The bounds of the texts of a process.
const (
	maxReply = 64 << 10
	maxError = 1 << 10
)

// socketpair returns both ends of the connection with the process.
func socketpair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "download"), os.NewFile(uintptr(fds[1]), "download"), nil
}
