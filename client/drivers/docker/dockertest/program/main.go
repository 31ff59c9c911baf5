// Command program is the only file of the images of tests. It carries out its arguments in order: each is the
// name of a step, and what it needs after a colon.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/client/machine/netns"
)

// steps has the steps that end.
var steps = map[string]func(string) error{
	"out":    func(text string) error { return write(os.Stdout, text) },
	"err":    func(text string) error { return write(os.Stderr, text) },
	"env":    func(name string) error { return write(os.Stdout, os.Getenv(name)) },
	"args":   func(string) error { return write(os.Stdout, strings.Join(os.Args, " ")) },
	"user":   func(string) error { return write(os.Stdout, fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())) },
	"dir":    func(string) error { dir, _ := os.Getwd(); return write(os.Stdout, dir) },
	"cat":    cat,
	"echo":   func(string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
	"status": status,
	"make":   func(path string) error { return os.WriteFile(path, []byte("made"), 0o600) },
	"list":   list,
	"link":   func(path string) error { to, _ := os.Readlink(path); return write(os.Stdout, to) },
	"eat":    eat,
	"sleep":  sleep,
	"await":  await,
	"count":  count,
	"tmpfs":  func(path string) error { return syscall.Mount("test", path, "tmpfs", 0, "size=64k") },
	"unlink": os.Remove,
	"device": device,
	"serve":  serve,
}

// main carries the steps out. A step that fails ends the program with code 1 and its reason.
func main() {
	// The tests of pause containers use the same file.
	if len(os.Args) > 1 && os.Args[1] == netns.PauseArg {
		os.Exit(netns.PauseMain(os.Args[2:]))
	}

	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, ":")
		switch name {
		// These steps end the program, so the map cannot have them.
		case "exit":
			code, _ := strconv.Atoi(value)
			os.Exit(code)
		case "trap": // ends with a code after SIGTERM
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, syscall.SIGTERM)
			fmt.Println("ready")
			<-signals
			code, _ := strconv.Atoi(value)
			os.Exit(code)

		case "ignore":
			signal.Ignore(syscall.SIGTERM)
			fmt.Println("ready")
			time.Sleep(time.Hour)
		}

		if step := steps[name]; step != nil {
			err := step(value)
			if err != nil {
				fmt.Fprintln(os.Stderr, "failed:", err)
				os.Exit(1)
			}
		}
	}
}

// write writes a line, so that a test can wait for it whole.
func write(to io.Writer, text string) error {
	_, err := fmt.Fprintln(to, text)
	return err
}

// cat prints a file without the end of its last line.
func cat(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return write(os.Stdout, strings.TrimSpace(string(text)))
}

// status prints a field of /proc/self/status.
func status(field string) error {
	text, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, field+":")
		if ok {
			return write(os.Stdout, strings.TrimSpace(value))
		}
	}
	return err
}

// list prints the paths in a directory, in order.
func list(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	slices.Sort(names)
	if err != nil {
		return err
	}
	return write(os.Stdout, strings.Join(names, " "))
}

// device prints a device file and the ways in which it can be opened: "/dev/x rw".
func device(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}

	if info.Mode()&os.ModeDevice == 0 {
		return fmt.Errorf("%s is no device", path)
	}

	text := path + " "
	for way, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		f, err := os.OpenFile(path, flag, 0)
		if err == nil {
			text += "rw"[way : way+1]
			_ = f.Close()
		}
	}

	return write(os.Stdout, text)
}

// eat uses that many MiB of memory.
func eat(size string) error {
	mib, err := strconv.Atoi(size)
	kept := make([][]byte, 0, mib)
	for range mib {
		block := make([]byte, 1<<20)
		// The kernel gives memory to a page when it is written.
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		kept = append(kept, block)
	}

	fmt.Println(len(kept))
	return err
}

// sleep takes a duration such as "5s".
func sleep(text string) error {
	d, err := time.ParseDuration(text)
	time.Sleep(d)
	return err
}

// await waits for a file. Twenty processes that look for theirs again and again would use a tenth of the time
// of all tests with containers, so the kernel tells of each new file.
func await(path string) error {
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err == nil {
		_, err = syscall.InotifyAddWatch(watch, filepath.Dir(path), syscall.IN_CREATE|syscall.IN_MOVED_TO)
	}

	for err == nil {
		// The file may be there since before the watch.
		_, err = os.Stat(path)
		if err == nil || !os.IsNotExist(err) {
			return err
		}
		_, err = syscall.Read(watch, make([]byte, 4096))
		if errors.Is(err, syscall.EINTR) {
			err = nil
		}
	}
	return err
}

// count prints numbers, a line each, with a pause after each: "1000 5ms".
func count(text string) error {
	number, wait, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}

	d, err := time.ParseDuration(wait)
	for i := range n {
		fmt.Println(i)
		time.Sleep(d)
	}

	return err
}

// serve answers at a port, in TCP and UDP, while the later steps run: "tcp 80".
func serve(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}

	// One number serves both, as the driver publishes a port.
	packets, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			_ = write(conn, "tcp "+port)
			_ = conn.Close()
		}
	}()

	go func() {
		for {
			_, from, err := packets.ReadFrom(make([]byte, 16))
			if err != nil {
				return
			}

			_, _ = packets.WriteTo([]byte("udp "+port+"\n"), from)
		}
	}()

	return nil
}
