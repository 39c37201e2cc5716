package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	// expireAfter is when the daemon kills a container whatever became of us: it
	// is longer than any run of one test binary may take.
	expireAfter = 40 * time.Minute
	// pullTimeout bounds the pull of an image.
	pullTimeout = 5 * time.Minute

	labelPID  = "sendonce.test.pid"
	labelHost = "sendonce.test.host"
)

// container is a server in a container.
type container struct {
	kind     *kind
	image    string
	hostPort string
	options  *Options
	pool     *dockertest.Pool
	resource *dockertest.Resource // nil before the first start
}

// docked connects to the daemon, once.
var docked = sync.OnceValues(func() (*dockertest.Pool, error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.Ping()
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker daemon: %w", err)
	}
	sweepContainers(pool)
	return pool, nil
})

// newContainer makes sure that there is an image. The port outside is ours to
// choose: a port of the daemon's choice changes at each start.
func newContainer(k *kind, o *Options) (*container, error) {
	pool, err := docked()
	if err != nil {
		return nil, err
	}
	c := &container{kind: k, image: cmp.Or(os.Getenv(k.imageVar), k.image), options: o.orDefault(), pool: pool}
	if !strings.Contains(c.image[strings.LastIndexByte(c.image, '/')+1:], ":") {
		c.image += ":latest"
	}
	if err := c.pull(); err != nil {
		return nil, err
	}
	c.hostPort, err = freePort()
	return c, err
}

func (c *container) repository() (name, tag string) {
	i := strings.LastIndexByte(c.image, ':')
	return c.image[:i], c.image[i+1:]
}

func (c *container) pull() error {
	_, err := c.pool.Client.InspectImage(c.image)
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pullTimeout)
	defer cancel()
	name, tag := c.repository()
	err = c.pool.Client.PullImage(docker.PullImageOptions{Repository: name, Tag: tag, Context: ctx}, docker.AuthConfiguration{})
	if err != nil {
		return fmt.Errorf("pull %s (%s names another image): %w", c.image, c.kind.imageVar, err)
	}
	return nil
}

func (c *container) address() string { return "127.0.0.1:" + c.hostPort }

func (c *container) start(context.Context) error {
	if c.resource != nil {
		if err := c.pool.Client.StartContainer(c.resource.Container.ID, nil); err != nil {
			return err
		}
		return c.resource.Expire(uint(expireAfter.Seconds()))
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	port := docker.Port(c.kind.port + "/tcp")
	name, tag := c.repository()
	c.resource, err = c.pool.RunWithOptions(&dockertest.RunOptions{
		Repository:   name,
		Tag:          tag,
		Env:          slices.Concat(c.kind.env, c.options.Env),
		Cmd:          slices.Concat(c.kind.flags, c.options.Args),
		ExposedPorts: []string{string(port)},
		PortBindings: map[docker.Port][]docker.PortBinding{port: {{HostIP: "127.0.0.1", HostPort: c.hostPort}}},
		Labels:       map[string]string{labelPID: strconv.Itoa(os.Getpid()), labelHost: host},
	}, func(h *docker.HostConfig) { h.PublishAllPorts = false }) // nothing on other interfaces
	if err != nil {
		return fmt.Errorf("run %s: %w", c.image, err)
	}
	return c.resource.Expire(uint(expireAfter.Seconds()))
}

// exited returns how the container ended, nil while it runs.
func (c *container) exited() error {
	info, err := c.pool.Client.InspectContainer(c.resource.Container.ID)
	if err == nil && !info.State.Running {
		err = fmt.Errorf("the container's exit status is %d", info.State.ExitCode)
	}
	return err
}

func (c *container) stop() error { return c.signal(c.kind.stop) }
func (c *container) kill() error { return c.signal(syscall.SIGKILL) }

func (c *container) signal(sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	id := c.resource.Container.ID
	err := c.pool.Client.KillContainer(docker.KillContainerOptions{ID: id, Signal: docker.Signal(sig), Context: ctx})
	if err != nil {
		return err
	}
	_, err = c.pool.Client.WaitContainerWithContext(id, ctx)
	return err
}

func (c *container) pause() error { return c.pool.Client.PauseContainer(c.resource.Container.ID) }

func (c *container) resume() error { return c.pool.Client.UnpauseContainer(c.resource.Container.ID) }

func (c *container) remove() {
	if c.resource == nil {
		return
	}
	if err := c.pool.Purge(c.resource); err != nil {
		fmt.Fprintln(os.Stderr, "servers: remove a container:", err)
	}
}

func (c *container) log() string {
	if c.resource == nil {
		return ""
	}
	var out bytes.Buffer
	err := c.pool.Client.Logs(docker.LogsOptions{
		Container: c.resource.Container.ID, OutputStream: &out, ErrorStream: &out, Stdout: true, Stderr: true, Tail: "40",
	})
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// sweepContainers removes those of this machine's test binaries that died.
func sweepContainers(pool *dockertest.Pool) {
	host, err := os.Hostname()
	if err != nil {
		return
	}
	found, err := pool.Client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {labelHost + "=" + host}},
	})
	if err != nil {
		return
	}
	for _, c := range found {
		if pid, err := strconv.Atoi(c.Labels[labelPID]); err == nil && !alive(pid) {
			_ = pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true})
		}
	}
}
