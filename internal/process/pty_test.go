package process

import (
	"bufio"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, terminal, err := OpenTerminal(Multiplexer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = master.Close()
		_ = terminal.Close()
	})
	return master, terminal
}

func TestOpen_MakesBothEndsOfATerminal(t *testing.T) {
	master, terminal := open(t)
	if _, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS); err != nil {
		t.Fatalf("the terminal is none: %v", err)
	}
	if _, err := terminal.WriteString("out\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(master).ReadString('\n')
	if err != nil || line != "out\r\n" { // the terminal adds the carriage return
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := master.WriteString("in\n"); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(terminal).ReadString('\n')
	if err != nil || line != "in\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

func TestOpen_TheMasterHasDeadlinesAndAnEnd(t *testing.T) {
	master, terminal := open(t)
	if err := master.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := master.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if err := master.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := master.Read(make([]byte, 1)); !errors.Is(err, unix.EIO) {
		t.Errorf("got %v, want EIO", err)
	}
}

func TestResize_SetsTheSize(t *testing.T) {
	master, terminal := open(t)
	if err := ResizeTerminal(master, 24, 81); err != nil {
		t.Fatal(err)
	}
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row != 24 || size.Col != 81 {
		t.Errorf("got %+v, %v", size, err)
	}
}

func TestOpen_RejectsAnotherFile(t *testing.T) {
	for _, path := range []string{"/dev/null", "/dev/missing"} {
		if _, _, err := OpenTerminal(path); err == nil {
			t.Errorf("%s made a terminal", path)
		}
	}
}
