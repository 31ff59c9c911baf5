package commands

import (
	"cmp"
	"net"
	"os"
	"strconv"

	"berth/agent"
	"berth/cli/command"
	cli "berth/cli/operator"
	"berth/internal/doctor"
	"berth/internal/opsocket"
)

// doctorCommand returns "berth doctor", which reads the configuration of the agent.
func doctorCommand() command.Command { return cli.DoctorCommand(loadMachine) }

// loadMachine returns this machine with the settings of a configuration. A machine without one is to become a
// server and a node on loopback.
func loadMachine(paths []string) (m *doctor.Machine, socket string) {
	m = doctor.New()
	if len(paths) == 0 {
		_, err := os.Stat(opsocket.ConfigDir)
		m.Unconfigured = os.IsNotExist(err)
		paths = []string{opsocket.ConfigDir}
	}

	config := agent.DefaultConfig()
	if m.Unconfigured {
		config.BindAddr = "127.0.0.1"
		config.Server.Enabled = true
		config.Client.Enabled = true
	} else {
		m.ConfigFault = config.LoadFiles(paths)
	}
	fault := config.Finish()
	if m.ConfigFault == nil {
		m.ConfigFault = fault
	}

	describe(m, &config)
	return m, socketOf(&config)
}

// socketOf returns the operator socket of the agent of a configuration. The unit of servers has another one
// than the usual one.
func socketOf(config *agent.Config) string {
	if config.OperatorSocket != opsocket.Default {
		return config.OperatorSocket
	}
	return cmp.Or(opsocket.Served(opsocket.Default, opsocket.OfServer), opsocket.Default)
}

// describe copies the settings that the checks need.
func describe(m *doctor.Machine, config *agent.Config) {
	m.Client = config.Client.Enabled
	m.DataDir = config.DataDir
	m.TLS = config.TLS
	m.Address, m.AddressWhy, m.AddressFault = config.AddressForOthers()
	if m.Client {
		m.Watchdog = config.Client.Fencing.Watchdog
	}

	httpAddress := config.Addresses.HTTP
	if httpAddress == "" {
		httpAddress = config.BindAddr
	}
	m.Ports = []doctor.Port{{
		Setting: "ports.http",
		Network: "tcp",
		Address: net.JoinHostPort(httpAddress, strconv.Itoa(config.Ports.HTTP)),
	}}
	if !config.Server.Enabled {
		return
	}

	m.Ports = append(m.Ports,
		doctor.Port{Setting: "ports.rpc", Network: "tcp", Address: config.Server.RPCBind},
		doctor.Port{Setting: "ports.serf", Network: "tcp", Address: config.Server.SerfBind},
		doctor.Port{Setting: "ports.serf", Network: "udp", Address: config.Server.SerfBind},
	)
	for _, device := range config.Server.Fencing {
		m.Fences = append(m.Fences, doctor.Fence{
			Name:        device.Name,
			Program:     device.Agent,
			SecretFiles: device.SecretFiles,
		})
	}
}
