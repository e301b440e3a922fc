package forge

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/user"
	"strings"

	"golang.org/x/crypto/ssh"
)

// configuration is what differs from one server to the next.
type configuration struct {
	dir, files, url string
	web, ssh        int
}

// template is Gitea's app.ini: SQLite, everything on loopback, nothing that calls home, webhooks to loopback only.
const template = `APP_NAME = Forge for tests
RUN_MODE = prod
RUN_USER = {user}
WORK_PATH = {dir}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true

[server]
PROTOCOL = http
DOMAIN = 127.0.0.1
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {web}
ROOT_URL = {url}/
LOCAL_ROOT_URL = {url}/
STATIC_ROOT_PATH = {files}
APP_DATA_PATH = {dir}/data
OFFLINE_MODE = true
LFS_START_SERVER = false
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_USER = git
SSH_DOMAIN = 127.0.0.1
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = {ssh}
SSH_PORT = {ssh}
SSH_SERVER_HOST_KEYS = {dir}/data/ssh/host_ed25519
GRACEFUL_HAMMER_TIME = 5s

[database]
DB_TYPE = sqlite3
PATH = {dir}/data/gitea.db
SQLITE_JOURNAL_MODE = WAL
SQLITE_TIMEOUT = 5000

[repository]
ROOT = {dir}/repositories
DEFAULT_BRANCH = main

[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
INTERNAL_TOKEN = {internal}
PASSWORD_HASH_ALGO = pbkdf2_v1

[oauth2]
ENABLED = false
JWT_SECRET = {jwt}

[service]
DISABLE_REGISTRATION = true
ENABLE_NOTIFY_MAIL = false

[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5

[mailer]
ENABLED = false
[session]
PROVIDER = memory
[cache]
ADAPTER = memory
[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false
[picture]
DISABLE_GRAVATAR = true
ENABLE_FEDERATED_AVATAR = false
[actions]
ENABLED = false
[packages]
ENABLED = false
[cron.update_checker]
ENABLED = false
[log]
MODE = file
LEVEL = Info
ROOT_PATH = {dir}/log
`

// configure writes app.ini. Secrets are kept from one start to the next: other ones would make the database unreadable.
func (s *Server) configure(ctx context.Context, c configuration) error {
	words := []string{
		"{dir}", c.dir, "{files}", c.files, "{url}", c.url, "{web}", fmt.Sprint(c.web), "{ssh}", fmt.Sprint(c.ssh), "{user}", userName(),
		"{secret}", s.Password,
	}
	for mark, name := range map[string]string{"{internal}": "INTERNAL_TOKEN", "{jwt}": "JWT_SECRET"} {
		value, err := s.secret(ctx, name)
		if err != nil {
			return err
		}
		words = append(words, mark, value)
	}
	if err := os.WriteFile(s.path("app.ini"), []byte(strings.NewReplacer(words...).Replace(template)), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// secret has Gitea make one, in the form that it wants for this name.
func (s *Server) secret(ctx context.Context, name string) (string, error) {
	out, err := s.command(ctx, "generate", "secret", name).Output()
	if err != nil {
		return "", fmt.Errorf("generate %s: %w", name, err)
	}
	return lastLine(out), nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

func hostKey() (private []byte, public ssh.PublicKey, err error) {
	open, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		return nil, nil, fmt.Errorf("write host key: %w", err)
	}
	public, err = ssh.NewPublicKey(open)
	if err != nil {
		return nil, nil, fmt.Errorf("read host key: %w", err)
	}
	return pem.EncodeToMemory(block), public, nil
}
