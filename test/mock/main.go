// Command mock serves the mock CSI driver of Kubernetes' own storage tests on a socket. The end-to-end tests
// run it as a plugin for ControllerModifyVolume and for topologies, which no other driver of theirs has.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	endpoint := flag.String("endpoint", "", "the socket, as unix:///PATH")
	limit := flag.Int64("attach-limit", 0, "the number of volumes that the node can have; 0 is no limit")
	flag.Parse()

	err := run(*endpoint, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mock:", err)
		os.Exit(1)
	}
}

// run serves the driver until SIGTERM or SIGINT.
func run(endpoint string, limit int64) error {
	socket := strings.TrimPrefix(endpoint, "unix://")
	err := os.Remove(socket)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}

	mock := service.New(service.Config{
		DriverName:     service.Name,
		AttachLimit:    limit,
		EnableTopology: true,
		IO:             mounts{},
	})
	served := driver.NewCSIDriver(&driver.CSIDriverServers{Controller: mock, Identity: mock, Node: mock})
	err = served.Start(listener, logCalls)
	if err != nil {
		return err
	}

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	served.Stop()
	return nil
}

// logCalls writes a line for each call: its name, its request as JSON and its error.
func logCalls(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	answer, err := handle(ctx, request)
	text, _ := json.Marshal(request) // a request of the specification has a form in JSON
	fmt.Println(path.Base(info.FullMethod), string(text), err)
	return answer, err
}

// mounts makes the target of a publication a file system in memory. The mock itself makes a directory, and a
// directory that is no mount is a dead volume for the node.
type mounts struct{ service.OSDirIO }

func (m mounts) Mkdir(dir string) error {
	err := m.OSDirIO.Mkdir(dir)
	if err != nil {
		return err
	}
	return syscall.Mount("mock", dir, "tmpfs", 0, "size=1m,mode=0755")
}

func (m mounts) RemoveAll(dir string) error {
	err := syscall.Unmount(dir, 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	return m.OSDirIO.RemoveAll(dir)
}
