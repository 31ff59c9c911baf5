package csihooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/csi"
	"berth/structs"
)

const (
	socketName = "csi.sock"
	// maxSocketPath is the longest path of a unix socket.
	maxSocketPath = 107
	// pluginData is where a plugin's task finds the directory that outlives its allocations.
	pluginData = "/var/lib/berth-plugin"
)

// SupervisorConfig is shared by all plugin supervisors of a node.
type SupervisorConfig struct {
	Dir      string // <data_dir>/csi: sockets and the plugins' own directories are below it
	Registry *registry.Registry
	Volumes  *volumes.Volumes
	Logger   hclog.Logger
	// HostPaths reports whether a task's driver gives it no private file system: it then gets paths of the
	// host instead of mounts. Nil means never.
	HostPaths func(task *structs.Task) bool

	StartInterval time.Duration // between two probes of a plugin that is starting; 100 ms
	ProbeInterval time.Duration // later; 30 s
	ProbeTimeout  time.Duration // 10 s
}

// NewPluginSupervisor makes the hook of a task that has a csi_plugin block.
func NewPluginSupervisor(cfg SupervisorConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	cfg.StartInterval = cmp.Or(cfg.StartInterval, 100*time.Millisecond)
	cfg.ProbeInterval = cmp.Or(cfg.ProbeInterval, 30*time.Second)
	cfg.ProbeTimeout = cmp.Or(cfg.ProbeTimeout, 10*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}

	// The job keeps its own block as it is.
	p := *task.CSIPluginConfig
	p.MountDir = cmp.Or(p.MountDir, "/csi")
	p.StagePublishBaseDir = cmp.Or(p.StagePublishBaseDir, "/local/csi")
	p.HealthTimeout = cmp.Or(p.HealthTimeout, structs.DefaultHealthTimeout)
	p.HangTimeout = cmp.Or(p.HangTimeout, structs.DefaultHangTimeout)
	return &supervisor{
		SupervisorConfig: cfg,
		allocID:          env.Alloc.ID,
		jobIndex:         jobIndex(env.Alloc.Job),
		plugin:           p,
		host:             cfg.HostPaths != nil && cfg.HostPaths(task),
		// The path of a socket has a bound, so the directories have short names.
		socketDir: filepath.Join(cfg.Dir, "p",
			mounts.ShortName(env.Alloc.ID, task.Name)),
		logger: cfg.Logger.Named("plugin_supervisor").With(
			"alloc_id", env.Alloc.ID,
			"task", task.Name,
			"plugin_id", p.ID),
	}
}

// jobIndex returns the index of the last change of a job, 0 without one.
func jobIndex(job *structs.Job) uint64 {
	if job == nil {
		return 0
	}
	return job.JobModifyIndex
}

// supervisor is the hook of one task.
type supervisor struct {
	SupervisorConfig
	allocID   string
	jobIndex  uint64
	plugin    structs.CSIPluginConfig
	host      bool // the task sees the paths of the host
	socketDir string
	logger    hclog.Logger

	mu       sync.Mutex
	watching *healthWatch // nil while the process is not watched
	stopping bool         // the process ends because it has to
}

// healthWatch is a goroutine that watches the plugin.
type healthWatch struct {
	ctx     context.Context // of Started: it ends when the agent stops
	control hooks.Control
	cancel  context.CancelFunc
	done    chan struct{}
}

// Name implements hook.Task.
func (*supervisor) Name() string { return "csi_plugin" }

func (s *supervisor) socket() string {
	return filepath.Join(s.socketDir, socketName)
}

// Up makes the plugin's directories and adds them to the driver's configuration. It removes a socket without
// a listener, so that the next process does not count as ready too early.
func (s *supervisor) Up(_ context.Context, env *hooks.TaskEnv) error {
	err := s.validate()
	if err != nil {
		return err
	}

	err = s.makeSocketDir()
	if err != nil {
		return fmt.Errorf("plugin %q: making its socket directory: %w", s.plugin.ID, err)
	}

	// The directory belongs to the plugin: the next allocation of it finds the same one.
	data := filepath.Join(s.Dir, "d", url.PathEscape(s.plugin.ID))
	err = os.MkdirAll(data, 0o700)
	if err != nil {
		return fmt.Errorf("plugin %q: making its own directory: %w", s.plugin.ID, err)
	}

	// Mounts of the plugin reach the host only below a shared mount.
	if s.servesNode() {
		err := mounts.MakeShared(s.Volumes.Root())
		if err != nil {
			return fmt.Errorf("plugin %q: %w", s.plugin.ID, err)
		}
	}

	s.configureTask(env.Config, data)
	return nil
}

// validate checks the paths of the plugin, also paths that the job leaves out.
func (s *supervisor) validate() error {
	p := s.plugin
	for name, dir := range map[string]string{
		"mount_dir": p.MountDir, "stage_publish_base_dir": p.StagePublishBaseDir,
	} {
		if !path.IsAbs(dir) {
			return structs.Invalidf("plugin %q: %s %q is not an absolute path", p.ID, name, dir)
		}
	}

	if strings.HasPrefix(path.Clean(p.StagePublishBaseDir)+"/",
		path.Clean(p.MountDir)+"/") {
		return structs.Invalidf(
			"plugin %q: stage_publish_base_dir %q is within mount_dir %q",
			p.ID, p.StagePublishBaseDir, p.MountDir)
	}

	if len(p.StagePublishBaseDir) > structs.MaxPluginBaseDir {
		return structs.Invalidf(
			"plugin %q: stage_publish_base_dir is %d bytes long, at most %d are allowed: a path that is sent to a "+
				"plugin accepts at most 128",
			p.ID, len(p.StagePublishBaseDir), structs.MaxPluginBaseDir)
	}

	if sock := s.socket(); len(sock) > maxSocketPath {
		return structs.Invalidf(
			"plugin %q: the socket path %s is %d bytes long, the kernel allows %d: choose a shorter data_dir",
			p.ID, sock, len(sock), maxSocketPath)
	}

	return nil
}

func (s *supervisor) servesNode() bool {
	return slices.Contains(s.plugin.Kinds(), structs.CSIKindNode)
}

// makeSocketDir makes the directory. It removes the socket and the registration of a process that has ended.
func (s *supervisor) makeSocketDir() error {
	err := os.MkdirAll(s.socketDir, 0o700)
	if err != nil {
		return err
	}

	// An existing directory has kept its mode.
	err = os.Chmod(s.socketDir, 0o700)
	if err != nil {
		return err
	}

	// The file outlives the process that listens, so only a connection tells whether there is one.
	conn, err := net.Dial("unix", s.socket())
	switch {
	case err == nil: // the process runs: the agent restarted, not the plugin
		return conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, fs.ErrNotExist):
		// An agent that was killed has left the registration of its process.
		return errors.Join(s.deregister(), mounts.Remove(s.socket()), mounts.Remove(s.unhealthyMark()))
	}

	return nil // the process may run and be busy
}

// configureTask adds mounts and environment to the driver's configuration.
func (s *supervisor) configureTask(c *driver.TaskConfig, data string) {
	if c.Env == nil {
		c.Env = map[string]string{}
	}

	// A plugin has to mount, and to see the devices of the machine.
	c.Privileged = true
	if s.host {
		// The task sees the paths of the host.
		c.Env["CSI_ENDPOINT"] = "unix://" + s.socket()
		c.Env["BERTH_PLUGIN_DATA"] = data
		return
	}

	c.Env["CSI_ENDPOINT"] = "unix://" + path.Join(s.plugin.MountDir, socketName)
	c.Env["BERTH_PLUGIN_DATA"] = pluginData
	c.Mounts = append(c.Mounts,
		driver.Mount{
			HostPath:    s.socketDir,
			TaskPath:    s.plugin.MountDir,
			Propagation: "private",
		},
		driver.Mount{
			HostPath:    data,
			TaskPath:    pluginData,
			Propagation: "private",
		})

	if s.servesNode() {
		// The mounts that the plugin makes there have to reach the tasks that use the volumes.
		c.Mounts = append(c.Mounts,
			driver.Mount{
				HostPath:    s.Volumes.Root(),
				TaskPath:    s.plugin.StagePublishBaseDir,
				Propagation: "bidirectional",
			})
	}
}

// Down undoes Up, except for the plugin's own directory.
func (s *supervisor) Down(context.Context) error {
	// It does nothing if the runner has called it.
	s.Stopped()
	return errors.Join(s.deregister(), mounts.RemoveFiles(s.socketDir))
}

// Started implements hook.Started: it begins to watch the process.
func (s *supervisor) Started(ctx context.Context, task hooks.Control) {
	s.endWatch()
	within, cancel := context.WithCancel(ctx)
	// The end of w.ctx tells a stop of the agent from the end of the process.
	w := &healthWatch{
		ctx:     ctx,
		control: task,
		cancel:  cancel,
		done:    make(chan struct{}),
	}

	s.mu.Lock()
	s.watching = w
	s.stopping = false
	s.mu.Unlock()

	// endWatch ends it and waits.
	go func() {
		defer close(w.done)
		s.watch(within, task)
	}()
}

// Stopping implements hooks.Stopping: no call begins at the process any more, and the calls in flight end
// before it. A plugin that fails its probes is not waited for.
func (s *supervisor) Stopping(ctx context.Context) {
	s.mu.Lock()
	w := s.watching
	s.stopping = true
	s.mu.Unlock()
	if w != nil {
		// It would register the plugin again.
		w.cancel()
		<-w.done
	}

	err := s.deregister()
	if err != nil {
		s.logger.Error("failed to remove the registration of a plugin that stops", "error", err)
	}

	if !s.markedUnhealthy() {
		s.Volumes.AwaitCalls(ctx, s.allocID)
	}
}

// Stopped implements hook.Started: the process has ended, so it removes the registration. If the agent stops,
// the process runs on and stays registered for the next agent.
func (s *supervisor) Stopped() {
	w := s.endWatch()
	if w == nil || w.ctx.Err() != nil {
		return
	}

	s.mu.Lock()
	byItself := !s.stopping
	s.mu.Unlock()
	// This precedes the next process, which gets the calls again.
	s.Volumes.PluginEnded(w.ctx, s.socket(), byItself)
	if err := s.deregister(); err != nil {
		s.logger.Error("failed to remove the plugin's registration", "error", err)
	}
	// The registration is gone, so this looks at the other instances.
	s.warnInUse(w.control)
}

// endWatch ends the watcher, waits for it and returns it, nil if none ran.
func (s *supervisor) endWatch() *healthWatch {
	s.mu.Lock()
	w := s.watching
	s.watching = nil
	s.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
	return w
}

func (s *supervisor) pluginKeys() []registry.Key {
	var keys []registry.Key
	for _, kind := range s.plugin.Kinds() {
		keys = append(keys, registry.Key{Kind: kind, ID: s.plugin.ID})
	}
	return keys
}

// deregister removes the registrations of this allocation, and no others.
func (s *supervisor) deregister() error {
	var errs []error
	for _, k := range s.pluginKeys() {
		errs = append(errs, s.Registry.Deregister(k, s.allocID))
	}
	return errors.Join(errs...)
}

// warnInUse emits an event if a plugin has stopped that is needed to release volumes on this node.
func (s *supervisor) warnInUse(control hooks.Control) {
	nodeHalf := registry.Key{
		Kind: structs.CSIKindNode,
		ID:   s.plugin.ID,
	}
	// Another instance that serves here can release the volumes.
	if !s.servesNode() || s.Registry.Get(nodeHalf) != nil {
		return
	}

	// With an error, these are the volumes whose records could be read.
	inUse, err := s.Volumes.InUse(s.plugin.ID)
	if err != nil {
		s.logger.Error("failed to list the plugin's volumes in use", "error", err)
	}

	if len(inUse) == 0 {
		return
	}

	names := make([]string, len(inUse))
	for i, k := range inUse {
		names[i] = k.String()
	}

	s.logger.Warn("plugin stopped while its volumes are in use", "volumes", names)
	control.Emit(s.pluginEvent(structs.TaskEventHookMessage,
		"stopped while volumes on this node are in use: %s. The node releases them when it runs here again",
		strings.Join(names, ", ")))
}

// pluginEvent makes a task event about the plugin's health.
func (s *supervisor) pluginEvent(kind, format string, args ...any) *structs.TaskEvent {
	title := fmt.Sprintf("CSI plugin %q ", s.plugin.ID)
	return &structs.TaskEvent{
		Type:    kind,
		Time:    time.Now().UnixNano(),
		Message: title + fmt.Sprintf(format, args...),
		Details: map[string]string{
			"plugin_id": s.plugin.ID,
			"type":      s.plugin.Type,
		},
	}
}

// register registers the plugin's halves with the plugin's information on itself.
func (s *supervisor) register(info *csi.PluginInfo) error {
	var errs []error
	for _, k := range s.pluginKeys() {
		i := &registry.Instance{
			Kind:           k.Kind,
			ID:             k.ID,
			AllocID:        s.allocID,
			SocketPath:     s.socket(),
			Provider:       info.Name,
			Version:        info.Version,
			FormerProvider: s.plugin.FormerProvider,

			Tokens:            s.plugin.Tokens,
			TokensIn:          s.plugin.TokensIn,
			RequiresRepublish: s.plugin.RequiresRepublish,
			JobIndex:          s.jobIndex,
		}

		if s.servesNode() {
			i.HostMountPath = s.Volumes.Root()
			i.PluginMountPath = s.plugin.StagePublishBaseDir
			// The task sees the paths of the host.
			if s.host {
				i.PluginMountPath = i.HostMountPath
			}
		}

		errs = append(errs, s.Registry.Register(i))
	}
	return errors.Join(errs...)
}

// registered reports whether all halves of the plugin are registered for this allocation.
func (s *supervisor) registered() bool {
	for _, k := range s.pluginKeys() {
		if !s.Registry.Registered(k, s.allocID) {
			return false
		}
	}
	return true
}
