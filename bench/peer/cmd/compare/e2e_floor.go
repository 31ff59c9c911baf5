package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"berth/bench/peer/result"
)

// The names of the rows that show what a start takes without any orchestrator.
const (
	floorDisk    = "lower bound: one wait for the disk (a page, fdatasync)"
	floorDriver  = "the CSI driver as a process of the host stages and publishes a volume"
	floorCSI     = "CPU of the CSI driver as a process of the host, for the same"
	floorProgram = "lower bound: CPU of the job's program alone, start to end"
	floorStart   = "lower bound: waits for the disk, CSI driver and three bare processes, one after the other"
)

func floorScenario() scenario {
	return scenario{
		rows: []result.Row{
			inMilliseconds(floorDisk, 0, 0),
			inMilliseconds(floorDriver, 0, 0),
			inMilliseconds(floorCSI, 0, 0),
			inMilliseconds(floorProgram, 0, 0),
			inMilliseconds(floorStart, 0, 0),
		},
		measure: measureFloor,
		alone:   true,
	}
}

// measureFloor measures what the rows of an agent contain whatever the agent does.
func measureFloor(b *bench, _ *product) (numbers, error) {
	dir, err := os.MkdirTemp("", "bench-floor-")
	if err != nil {
		return nil, err
	}
	n := numbers{}
	tools := filepath.Join(b.bin, "tools")
	err = errors.Join(n.waitForDisk(dir), n.runProgram(dir, tools), n.runDriver(dir, tools))
	return n, errors.Join(err, os.RemoveAll(dir))
}

// waitForDisk measures writes of one page.
func (n numbers) waitForDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	defer f.Close()
	for range 200 {
		begun := time.Now()
		if err := writePage(f); err != nil {
			return err
		}
		n.add(floorDisk, time.Since(begun).Seconds())
	}
	return nil
}

// writePage writes a page and waits for the disk.
func writePage(f *os.File) error {
	_, err := f.WriteAt(make([]byte, 4096), 0)
	if err != nil {
		return err
	}
	return syscall.Fdatasync(int(f.Fd()))
}

// runProgram runs the program of the jobs until it has written.
func (n numbers) runProgram(dir, tools string) error {
	for i := range 20 {
		file := filepath.Join(dir, fmt.Sprintf("written-%d", i))
		cmd := exec.CommandContext(context.Background(), filepath.Join(tools, "bin", "writer"), file)
		cmd.SysProcAttr = withMe()
		if err := cmd.Start(); err != nil {
			return err
		}
		err := await(file, func() error {
			_, err := os.Stat(file)
			return err
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, cmd.Wait())
		if err != nil {
			return err
		}
		n.add(floorProgram, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	return nil
}

// runDriver runs the CSI driver as a process of the host, and stages and publishes volumes one after another.
func (n numbers) runDriver(dir, tools string) error {
	endpoint := "unix://" + filepath.Join(dir, "csi.sock")
	cmd := exec.CommandContext(context.Background(), filepath.Join(tools, "bin", "hostpathplugin"),
		"--endpoint", endpoint, "--nodeid", "bench", "--statedir", filepath.Join(dir, "state"),
		"--drivername", "hostpath.csi.k8s.io")
	cmd.SysProcAttr = withMe()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	conn, err := grpc.Dial(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	volumes, err := createVolumes(csi.NewControllerClient(conn))
	if err != nil {
		return err
	}
	begunCPU := cpuOf(cmd.Process.Pid, 4)
	node := csi.NewNodeClient(conn)
	for _, id := range volumes {
		begun := time.Now()
		if err == nil {
			err = publish(node, dir, id)
		}
		n.add(floorDriver, time.Since(begun).Seconds())
	}
	n.add(floorCSI, (cpuOf(cmd.Process.Pid, 4)-begunCPU)/float64(len(volumes)))
	for _, id := range volumes {
		err = errors.Join(err, unpublish(node, dir, id))
	}
	for i := 0; i < repetitions && err == nil; i++ {
		err = n.bareStart(&bareDriverAlone{node, dir, tools}, volumes[i])
	}
	return err
}

var writes = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

func createVolumes(controller csi.ControllerClient) (ids []string, err error) {
	for i := range manyJobs {
		err = await("the CSI driver", func() error {
			resp, err := controller.CreateVolume(context.Background(), &csi.CreateVolumeRequest{
				Name:               volumeID(i),
				CapacityRange:      &csi.CapacityRange{RequiredBytes: 1 << 20},
				VolumeCapabilities: []*csi.VolumeCapability{writes},
			})
			if err == nil {
				ids = append(ids, resp.Volume.VolumeId)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func publish(node csi.NodeClient, dir, id string) error {
	staged := filepath.Join(dir, "staged-"+id)
	if err := os.MkdirAll(staged, 0o755); err != nil {
		return err
	}
	_, err := node.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{
		VolumeId:          id,
		StagingTargetPath: staged,
		VolumeCapability:  writes,
	})
	if err == nil {
		_, err = node.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{
			VolumeId:          id,
			StagingTargetPath: staged,
			TargetPath:        filepath.Join(dir, "published-"+id),
			VolumeCapability:  writes,
		})
	}
	return err
}

func unpublish(node csi.NodeClient, dir, id string) error {
	_, err := node.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{
		VolumeId:   id,
		TargetPath: filepath.Join(dir, "published-"+id),
	})
	_, unstaged := node.NodeUnstageVolume(context.Background(), &csi.NodeUnstageVolumeRequest{
		VolumeId:          id,
		StagingTargetPath: filepath.Join(dir, "staged-"+id),
	})
	return errors.Join(err, unstaged)
}
