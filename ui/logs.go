package ui

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"berth/api"
	"berth/api/allocs"
	"berth/api/show"
	"berth/structs"
	"berth/ui/pages"
	"berth/ui/views"
)

// The paths of the log of a task, and of a command in it.
const (
	logsPath   = Root + "logs"
	logPath    = Root + "logs/stream" // follows the log
	execPath   = Root + "exec"
	socketPath = Root + "exec/socket" // the websocket of a command
)

const (
	// linesOfLog is how many of the last lines of a log the view begins with.
	linesOfLog = 200
	// mostLog bounds the bytes of a log that is not followed.
	mostLog = 256 << 10
)

// The names of the outputs of a task.
const (
	stdout = "stdout"
	stderr = "stderr"
)

// allocID is the form of the ID of an allocation. Others would change the path of a request to the API.
var allocID = regexp.MustCompile(`^[0-9a-f-]{1,36}$`)

// taskOf names a task of an allocation.
type taskOf struct {
	AllocID   string
	Namespace string
	Task      string
	Type      string // stdout or stderr
}

// readTask reads the task in the address of a view.
func (c *call) readTask() (taskOf, error) {
	t := taskOf{
		AllocID:   c.param("id"),
		Namespace: c.namespaceOf(),
		Task:      c.param("task"),
		Type:      c.param("type"),
	}
	if t.Type == "" {
		t.Type = stdout
	}
	if !allocID.MatchString(t.AllocID) || t.Task == "" || t.Type != stdout && t.Type != stderr {
		return t, structs.Invalidf("the address of the view names no log: expected the ID of an allocation, a " +
			"task, and stdout or stderr; follow a link of an allocation")
	}
	return t, nil
}

// to returns the address of a view of the task.
func (t taskOf) to(path, output string) string {
	v := url.Values{"id": {t.AllocID}, "namespace": {t.Namespace}, "task": {t.Task}}
	if output != "" {
		v.Set("type", output)
	}
	return path + "?" + v.Encode()
}

// open opens the log of the task at its last lines.
func (t taskOf) open(ctx context.Context, c *api.Client, follow bool) (io.ReadCloser, error) {
	return allocs.Logs(ctx, c, t.AllocID, allocs.LogOptions{
		Task:   t.Task,
		Stderr: t.Type == stderr,
		Follow: follow,
		Lines:  linesOfLog,
	})
}

// showLog shows the last lines of a log. The script then follows it.
func showLog(c *call) (*content, error) {
	t, err := c.readTask()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	log, err := t.open(ctx, c.client(t.Namespace), false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	text, err := io.ReadAll(io.LimitReader(log, mostLog))
	if err != nil {
		return nil, err
	}

	other := stderr
	args := []string{"-f", t.AllocID, t.Task}
	if t.Type == stderr {
		other = stdout
		args = append([]string{"-stderr"}, args...)
	}
	return contentOf("Log of "+show.OneLine(t.Task)+", "+t.Type, pages.Log(pages.TaskLog{
		Text:    string(text),
		Stream:  t.to(logPath, t.Type),
		Other:   pages.Link{Name: other, To: t.to(logsPath, other)},
		Back:    views.To(views.AllocPath, t.Namespace, t.AllocID),
		Command: structs.CommandLine(t.Namespace, "alloc logs", args...),
	})), nil
}

// streamLog sends a log, from its last lines on, until the task ends or the browser goes.
func (h *handler) streamLog(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	t, err := c.readTask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := c.stream()
	defer cancel()
	log, err := t.open(ctx, c.client(t.Namespace), true)
	if err != nil {
		http.Error(w, err.Error(), structs.KindOf(err).HTTPStatus())
		return
	}
	defer func() { _ = log.Close() }()

	conn := http.NewResponseController(w)
	// The deadline of the last write must not end the next request of the connection.
	defer func() { _ = conn.SetWriteDeadline(time.Time{}) }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = conn.Flush() // the browser sees that the log is open, however long the task is silent
	part := make([]byte, 32<<10)
	for {
		n, err := log.Read(part)
		if err != nil && n == 0 {
			return
		}
		_ = conn.SetWriteDeadline(time.Now().Add(liveStall))
		_, err = w.Write(part[:n])
		if err == nil {
			err = conn.Flush()
		}
		if err != nil {
			return
		}
	}
}

// showExec shows the terminal for a command in a task. The script runs it.
func showExec(c *call) (*content, error) {
	t, err := c.readTask()
	if err != nil {
		return nil, err
	}
	return contentOf("Command in "+show.OneLine(t.Task), pages.Exec(pages.TaskExec{
		Socket:  t.to(socketPath, ""),
		Back:    views.To(views.AllocPath, t.Namespace, t.AllocID),
		Command: structs.CommandLine(t.Namespace, "alloc exec", t.AllocID, t.Task, "/bin/sh"),
	})), nil
}

// serveSocket gives the websocket of a command to the API, with the token of the caller. The API checks its
// origin and the rights.
func (h *handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	t, err := c.readTask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	line, err := json.Marshal([]string{"/bin/sh", "-c", c.param("line")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	ctx, cancel := c.stream()
	defer cancel()
	to := r.Clone(ctx)
	to.URL.Path = "/v1/client/allocation/" + t.AllocID + "/exec"
	to.URL.RawPath = ""
	to.URL.RawQuery = url.Values{
		"namespace": {t.Namespace},
		"task":      {t.Task},
		"command":   {string(line)},
		"tty":       {"true"},
	}.Encode()
	to.RequestURI = to.URL.RequestURI()
	to.Header.Del("Cookie")
	if c.token != "" {
		to.Header.Set("X-Berth-Token", c.token)
	}
	h.API.ServeHTTP(w, to)
}

// taskLinks are the links to the logs of the tasks of an allocation, and to commands in those that run.
func taskLinks(a *structs.Allocation) (links []pages.Link) {
	for name, s := range show.Sorted(a.TaskStates) {
		t := taskOf{AllocID: a.ID, Namespace: a.Namespace, Task: name}
		links = append(links, pages.Link{Name: "Log of " + name, To: t.to(logsPath, stdout)})
		if s != nil && s.State == "running" {
			links = append(links, pages.Link{Name: "Command in " + name, To: t.to(execPath, "")})
		}
	}
	return links
}
