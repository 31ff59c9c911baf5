package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"golang.org/x/sys/unix"

	"berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/hclspec"
	"berth/client/drivers/protocol/shared"
	"berth/internal/process"
)

// driverService is a driver. A task is a shell script: the setting "script" of its configuration.
type driverService struct {
	driver.UnimplementedDriverServer
	plugin *Plugin

	mu    sync.Mutex
	tasks map[string]*task
}

// task is a running process.
type task struct {
	// It is the state in the handle, by which the next process of the plugin finds the task.
	process process.Ref
	// It is closed when the process has ended, and result is set before.
	ended  chan struct{}
	result *driver.ExitResult
}

// TaskConfigSchema announces the script, and a number that no task has to give.
func (d *driverService) TaskConfigSchema(
	context.Context, *driver.TaskConfigSchemaRequest,
) (*driver.TaskConfigSchemaResponse, error) {
	spec := objectOf("script", true)
	spec.GetObject().Attributes["nice"] = &hclspec.Spec{Block: &hclspec.Spec_Attr{Attr: &hclspec.Attr{
		Name: "nice",
		Type: "number",
	}}}
	return &driver.TaskConfigSchemaResponse{Spec: spec}, nil
}

// Capabilities reads the settings. The agent asks at the start of a process, so a test sets them before that.
func (d *driverService) Capabilities(
	context.Context, *driver.CapabilitiesRequest,
) (*driver.CapabilitiesResponse, error) {
	can := &driver.DriverCapabilities{SendSignals: true, Exec: d.plugin.setting("exec") != "no"}
	switch d.plugin.setting("isolation") {
	case "chroot":
		can.FsIsolation = driver.DriverCapabilities_CHROOT
	case "image":
		can.FsIsolation = driver.DriverCapabilities_IMAGE
	default:
		// Without a root of its own a task sees the paths of the host.
		can.MountConfigs = driver.DriverCapabilities_NO_MOUNTS
	}

	can.DynamicWorkloadUsers = d.plugin.setting("users") == "dynamic"
	if d.plugin.setting("network") == "group" {
		can.NetworkIsolationModes = []driver.NetworkIsolationSpec_NetworkIsolationMode{
			driver.NetworkIsolationSpec_HOST,
			driver.NetworkIsolationSpec_GROUP,
		}
	}

	return &driver.CapabilitiesResponse{Capabilities: can}, nil
}

// Fingerprint reports the health at first and at each change of a setting, or without a pause.
func (d *driverService) Fingerprint(_ *driver.FingerprintRequest, s driver.Driver_FingerprintServer) error {
	sent := "none"
	for s.Context().Err() == nil {
		health := d.plugin.setting("health")
		number := d.plugin.setting("attributes")
		if health+number != sent || d.plugin.setting("flood") != "" {
			sent = health + number
			if err := s.Send(fingerprint(health, number)); err != nil {
				return err
			}
		}
		time.Sleep(pollInterval)
	}
	return nil
}

// fingerprint makes a report. The number of attributes tests the bounds of the agent.
func fingerprint(health, attributes string) *driver.FingerprintResponse {
	answer := &driver.FingerprintResponse{
		Health:            driver.FingerprintResponse_HEALTHY,
		HealthDescription: "fine",
		Attributes:        map[string]*shared.Attribute{},
	}

	switch health {
	case "unhealthy":
		answer.Health = driver.FingerprintResponse_UNHEALTHY
	case "undetected":
		answer.Health = driver.FingerprintResponse_UNDETECTED
	}

	number, _ := strconv.Atoi(attributes)
	for i := range number {
		// The numbers have one length, so that the order of the names is theirs.
		name := fmt.Sprintf("driver.test-driver.%05d", i)
		answer.Attributes[name] = &shared.Attribute{Value: &shared.Attribute_IntVal{IntVal: int64(i)}}
	}

	return answer
}

// StartTask starts the script. The settings make it fail at each point at which a real start can be cut off.
func (d *driverService) StartTask(
	_ context.Context, r *driver.StartTaskRequest,
) (*driver.StartTaskResponse, error) {
	cfg := r.GetTask()
	// The agent must destroy a task before it starts another of the ID.
	if d.find(cfg.GetId()) != nil {
		return nil, fmt.Errorf("task %q is started already", cfg.GetId())
	}

	config := map[string]string{}
	err := codec.NewDecoderBytes(cfg.GetMsgpackDriverConfig(), &codec.MsgpackHandle{}).Decode(&config)
	if err != nil {
		return nil, err
	}

	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}

	// This precedes all that may hang or end, so that a test can wait for the call.
	d.plugin.append("started", string(text))
	// The end of the call does not end it, as it may not end the load of an image.
	for d.plugin.setting("pull") == Hang {
		time.Sleep(pollInterval)
	}

	t, err := run(cfg, config["script"], d.opener(cfg))
	if err != nil {
		return nil, err
	}

	// The task runs, and nobody but its pipes tells of it.
	if d.plugin.setting("answer") == Exit {
		os.Exit(3)
	}

	d.hold(cfg.GetId(), t)
	state, err := json.Marshal(t.process)
	return &driver.StartTaskResponse{Handle: &driver.TaskHandle{
		Version:     1,
		Config:      cfg,
		State:       driver.TaskState_RUNNING,
		DriverState: state,
	}}, err
}

// opener returns the function that opens the pipe of an output: by its path, or by its name in the logs of
// the allocation, as drivers do that show their tasks a part of the host.
func (d *driverService) opener(cfg *driver.TaskConfig) func(path string) (*os.File, error) {
	if d.plugin.setting("pipes") != "logs" {
		return func(path string) (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) }
	}
	return func(path string) (*os.File, error) {
		// The task may change this directory, so nothing outside of it is opened.
		logs, err := os.OpenRoot(filepath.Join(cfg.GetEnv()["NOMAD_ALLOC_DIR"], "logs"))
		if err != nil {
			return nil, err
		}
		defer logs.Close()
		name := filepath.Base(path)
		// A driver that gives the pipe to the user of the task does this by the name, which must not be a
		// link.
		err = logs.Chown(name, os.Getuid(), os.Getgid())
		if err != nil {
			return nil, err
		}
		return logs.OpenFile(name, os.O_WRONLY, 0)
	}
}

// run starts a script.
func run(cfg *driver.TaskConfig, script string, open func(string) (*os.File, error)) (*task, error) {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = filepath.Join(cfg.GetAllocDir(), cfg.GetName())

	// The process leads a session and so a group, which the calls below signal as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if dir := cfg.GetResources().GetLinuxResources().GetCpusetCgroup(); dir != "" {
		group, err := os.Open(dir) // the task begins in it: the kernel takes its descriptor with the clone
		if err != nil {
			return nil, fmt.Errorf("failed to open cgroup for descriptor: %w", err)
		}
		defer group.Close()

		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(group.Fd())
	}

	for name, value := range cfg.GetEnv() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	stdout, err := open(cfg.GetStdoutPath())
	if err != nil {
		return nil, err
	}

	// The script has the pipes after its start. A copy here would keep them open after its end.
	defer stdout.Close()

	stderr, err := open(cfg.GetStderrPath())
	if err != nil {
		return nil, err
	}
	defer stderr.Close()

	cmd.Stdout = stdout
	cmd.Stderr = stderr
	err = cmd.Start()
	if err != nil {
		return nil, err
	}

	return follow(cmd)
}

// follow makes the task of a script that runs, and waits for its end in the background.
func follow(cmd *exec.Cmd) (t *task, err error) {
	t = &task{ended: make(chan struct{}), result: &driver.ExitResult{}}

	// The goroutine below reaps the process, so its pid is still its own here.
	t.process, err = process.RefOf(cmd.Process.Pid)
	go func() {
		defer close(t.ended)
		_ = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			t.result.Signal = int32(status.Signal())
			return
		}

		t.result.ExitCode = int32(status.ExitStatus())
	}()

	return t, err
}

// hold makes the calls with the ID of a task find it.
func (d *driverService) hold(id string, t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = t
}

// find returns nil for a task that this process has neither started nor recovered.
func (d *driverService) find(id string) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tasks[id]
}

// known is find for calls that need the task.
func (d *driverService) known(id string) (*task, error) {
	t := d.find(id)
	if t == nil {
		// The error has no code, as the errors of the dialect's drivers have none.
		return nil, fmt.Errorf("task %q is not known", id)
	}
	return t, nil
}

// RecoverTask finds the process again. Its exit code is lost.
func (d *driverService) RecoverTask(
	_ context.Context, r *driver.RecoverTaskRequest,
) (*driver.RecoverTaskResponse, error) {
	if d.find(r.GetTaskId()) != nil {
		return &driver.RecoverTaskResponse{}, nil
	}

	t := &task{ended: make(chan struct{}), result: &driver.ExitResult{}}
	err := json.Unmarshal(r.GetHandle().GetDriverState(), &t.process)
	if err != nil {
		return nil, err
	}

	fd, err := t.process.Open()
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("task %q is gone: %v", r.GetTaskId(), err)
	}

	// This was only the look whether it still runs; Wait opens it by itself.
	_ = unix.Close(fd)
	go func() {
		defer close(t.ended)
		_ = t.process.Wait(context.Background())
	}()
	d.hold(r.GetTaskId(), t)
	return &driver.RecoverTaskResponse{}, nil
}

// WaitTask returns the end of a task to each caller, also later.
func (d *driverService) WaitTask(
	ctx context.Context, r *driver.WaitTaskRequest,
) (*driver.WaitTaskResponse, error) {
	t, err := d.known(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-t.ended:
		return &driver.WaitTaskResponse{Result: t.result}, nil
	case <-ctx.Done():
		return nil, ctx.Err() // as the dialect's drivers do: an error without a code
	}
}

// StopTask signals all processes of the task. Without a signal it uses SIGUSR2, which no agent names by
// itself, so a test sees that none was named.
func (d *driverService) StopTask(
	_ context.Context, r *driver.StopTaskRequest,
) (*driver.StopTaskResponse, error) {
	t, err := d.known(r.GetTaskId())
	if err != nil {
		return nil, err
	}

	signal := cmp.Or(r.GetSignal(), "SIGUSR2")
	_ = unix.Kill(-t.process.PID, unix.SignalNum(signal))
	select {
	case <-t.ended:
	// The call returns after the end of the task, as the interface wants it.
	case <-time.After(r.GetTimeout().AsDuration()):
		_ = unix.Kill(-t.process.PID, unix.SIGKILL)
		<-t.ended
	}
	return &driver.StopTaskResponse{}, nil
}

// SignalTask signals only the first process.
func (d *driverService) SignalTask(
	_ context.Context, r *driver.SignalTaskRequest,
) (*driver.SignalTaskResponse, error) {
	t, err := d.known(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &driver.SignalTaskResponse{}, unix.Kill(t.process.PID, unix.SignalNum(r.GetSignal()))
}

// DestroyTask kills the task and forgets it. It fails for an unknown one, and the agent has to find out by
// InspectTask what that means.
func (d *driverService) DestroyTask(
	_ context.Context, r *driver.DestroyTaskRequest,
) (*driver.DestroyTaskResponse, error) {
	t, err := d.known(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	_ = unix.Kill(-t.process.PID, unix.SIGKILL)
	<-t.ended

	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, r.GetTaskId())
	return &driver.DestroyTaskResponse{}, nil
}

// InspectTask knows whether there is the task. It names no process, so a guard cannot check where the task
// runs.
func (d *driverService) InspectTask(
	_ context.Context, r *driver.InspectTaskRequest,
) (*driver.InspectTaskResponse, error) {
	_, err := d.known(r.GetTaskId())
	return &driver.InspectTaskResponse{}, err
}

// TaskStats sends one message and keeps the stream open.
func (d *driverService) TaskStats(r *driver.TaskStatsRequest, s driver.Driver_TaskStatsServer) error {
	if _, err := d.known(r.GetTaskId()); err != nil {
		return err
	}

	usage := &driver.TaskResourceUsage{
		// The tests compare these numbers with what the node reports.
		Cpu:    &driver.CPUUsage{Percent: 50, TotalTicks: 1000},
		Memory: &driver.MemoryUsage{Rss: 1 << 20, MaxUsage: 2 << 20},
	}
	err := s.Send(&driver.TaskStatsResponse{Stats: &driver.TaskStats{
		Id:               r.GetTaskId(),
		AggResourceUsage: usage,
	}})
	if err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// TaskEvents sends the events of Plugin.Emit, all of them again after a stream was closed.
func (d *driverService) TaskEvents(_ *driver.TaskEventsRequest, s driver.Driver_TaskEventsServer) error {
	sent := 0
	for s.Context().Err() == nil {
		for _, line := range d.plugin.Lines("events")[sent:] {
			fields := strings.SplitN(line, "\t", 3)
			err := s.Send(&driver.DriverTaskEvent{
				// The agent goes by the two names below, and not by the ID.
				TaskId:      fields[0] + "/" + fields[1],
				AllocId:     fields[0],
				TaskName:    fields[1],
				Message:     fields[2],
				Annotations: map[string]string{"from": "test"},
			})
			if err != nil {
				return err
			}

			// The file only grows, so its number of lines is the place to go on.
			sent++
		}

		time.Sleep(pollInterval)
	}
	return nil
}
