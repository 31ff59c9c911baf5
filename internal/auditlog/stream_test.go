package auditlog

import (
	"errors"
	"log/syslog"
	"net"
	"os"
	"strings"
	"testing"

	"berth/test/kit"
)

func TestStdout_HasTheLines(t *testing.T) {
	w := newWorld(t)
	l := w.open(&Sink{Name: "out", Type: TypeStdout})
	w.change(l, "x")
	l.Reopen()
	if got := idsOf(t, w.stdout.String()); got != "xr xc" {
		t.Errorf("got the lines %q", got)
	}

	r, closed, err := os.Pipe()
	kit.Must(t, errors.Join(err, r.Close(), closed.Close()))
	if (stream{closed}).write([]byte("{}\n")) == nil {
		t.Error("an output that is closed takes lines")
	}
}

// TestSyslog_IsFoundAgain has a daemon that ends and comes back. Its messages have no rows that are too long.
func TestSyslog_IsFoundAgain(t *testing.T) {
	w := newWorld(t)
	path := w.dir + "/log"
	listen := func() *net.UnixConn {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		kit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	d := newDaemon()
	d.dial = func() (*syslog.Writer, error) {
		return syslog.Dial("unixgram", path, syslog.LOG_AUTHPRIV|syslog.LOG_INFO, "berth-audit")
	}
	defer d.close()
	if err := d.prepare(); err == nil || !strings.HasPrefix(err.Error(), "syslog: ") {
		t.Errorf("without a daemon: got %v", err)
	}

	conn := listen()
	long := strings.Repeat("x", maxSyslog)
	kit.Must(t, d.write([]byte("{\"stage\":\"a\"}\n{\"stage\":\"b\",\"before\":[\""+long+"\"]}\n")))
	for _, want := range []string{`"stage":"a"`, `"truncated":true`} {
		got := read(t, conn)
		if !strings.Contains(got, want) || !strings.Contains(got, "berth-audit") || len(got) > maxSyslog {
			t.Errorf("got %.300q, want %s", got, want)
		}
	}

	connected := d.to
	kit.Must(t, d.prepare())
	if d.to != connected {
		t.Error("a connection is made for each message")
	}
	kit.Must(t, conn.Close())
	kit.Must(t, os.Remove(path))
	for range 2 {
		if err := d.write([]byte("{}\n")); err == nil || !strings.HasPrefix(err.Error(), "syslog: ") {
			t.Errorf("a message without a daemon: got %v", err)
		}
	}
	conn = listen()
	kit.Must(t, d.write([]byte("{\"stage\":\"c\"}\n")))
	if got := read(t, conn); !strings.Contains(got, `"stage":"c"`) {
		t.Errorf("got %q", got)
	}
	d.close()
	d.close()
	if d.to != nil {
		t.Error("the connection is still there after the end")
	}
}

func TestSyslog_IsTheDaemonOfTheMachine(t *testing.T) {
	o := newOutlet(Sink{Name: "s", Type: TypeSyslog, DeliveryGuarantee: Enforced}, newWorld(t).deps())
	d, ok := o.sink.(*daemon)
	if !ok {
		t.Fatalf("got the sink %T", o.sink)
	}
	_ = d.prepare() // a test may run without a daemon
	d.close()
}

func TestSyslog_ALongMessageHasNoRows(t *testing.T) {
	row := func(bytes int) string {
		line := `{"time":"2026-05-04T03:02:01Z","stage":"a","kind":"","agent":"","caller":{},"before":["x"],"after":["`
		return line + strings.Repeat("y", bytes-len(line)-4) + "\"]}\n"
	}
	for line, want := range map[string]string{
		row(maxSyslog):     row(maxSyslog),
		row(maxSyslog + 1): `{"time":"2026-05-04T03:02:01Z","stage":"a","kind":"","agent":"","caller":{},"truncated":true}`,
		strings.Repeat("no JSON", maxSyslog) + "\n": strings.Repeat("no JSON", maxSyslog),
	} {
		if got := message([]byte(line)); got != strings.TrimSuffix(want, "\n") {
			t.Errorf("a line of %d bytes: got %.200q", len(line), got)
		}
	}
}

func read(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 2*maxSyslog)
	n, err := conn.Read(b)
	kit.Must(t, err)
	return string(b[:n])
}
