package auditlog

import (
	"log/syslog"
	"net"
	"os"
	"strings"
	"testing"
)

func TestStdout_HasTheLines(t *testing.T) {
	w := newWorld(t)
	l := w.open(&Sink{Name: "out", Type: TypeStdout})
	w.change(l, "x")
	l.Reopen()
	if got := idsOf(t, w.stdout.String()); got != "xr xc" {
		t.Errorf("got the lines %q", got)
	}
}

// TestSyslog_IsFoundAgain has a daemon that ends and comes back. Its messages have no rows that are too long.
func TestSyslog_IsFoundAgain(t *testing.T) {
	w := newWorld(t)
	path := w.dir + "/log"
	listen := func() *net.UnixConn {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		must(t, err)
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
	must(t, d.write([]byte("{\"stage\":\"a\"}\n{\"stage\":\"b\",\"before\":[\""+long+"\"]}\n")))
	for _, want := range []string{`"stage":"a"`, `"truncated":true`} {
		got := read(t, conn)
		if !strings.Contains(got, want) || !strings.Contains(got, "berth-audit") || len(got) > maxSyslog {
			t.Errorf("got %.300q, want %s", got, want)
		}
	}

	must(t, conn.Close())
	must(t, os.Remove(path))
	if err := d.write([]byte("{}\n")); err == nil {
		t.Error("a message without a daemon is no fault")
	}
	conn = listen()
	must(t, d.write([]byte("{\"stage\":\"c\"}\n")))
	if got := read(t, conn); !strings.Contains(got, `"stage":"c"`) {
		t.Errorf("got %q", got)
	}
}

func read(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 2*maxSyslog)
	n, err := conn.Read(b)
	must(t, err)
	return string(b[:n])
}
