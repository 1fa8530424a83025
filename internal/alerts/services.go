package alerts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"authguard/internal/outbox"
)

// services maps the kinds of channels to the parsers of their addresses, which return the sender.
var services = map[string]func(target) (func(*httpClient) sender, error){
	"discord": discord, "generic": generic, "ntfy": ntfy, "slack": slack, "smtp": smtp, "smtps": smtp, "teams": teams,
	"telegram": telegram, "webhook": webhook,
}

var kindsOfChannels = maps.Keys(services)

// send implements sender. Its errors contain no secrets.
func (r redacting) send(ctx context.Context, m message) error {
	if err := r.sender.send(ctx, m); err != nil {
		return fmt.Errorf("alerts: %s: %s", r.scheme, r.redact(err))
	}
	return nil
}

type over struct {
	client *httpClient
	put    func(message) (call, error)
}

func (o over) send(ctx context.Context, m message) error {
	what, err := o.put(m)
	if err != nil {
		return err
	}
	return o.client.post(ctx, what)
}

func putting(to string, body func(message) any, good func([]byte) error) func(*httpClient) sender {
	return func(c *httpClient) sender {
		return over{c, func(m message) (call, error) {
			text, err := json.Marshal(body(m))
			return call{to, jsonHeader(), text, good}, err
		}}
	}
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// hookOf returns the URL of an address such as slack+https://….
func (t target) hookOf() (string, bool) {
	_, scheme, plus := strings.Cut(strings.ToLower(t.url.Scheme), "+")
	u := *t.url
	u.Scheme = scheme
	return u.String(), plus && (scheme == "https" || scheme == "http") && u.Host != "" && u.User == nil
}

// cut shortens a text to a service's limit. The page Alerts has the whole text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	const rest = "\n… and more: see the log or the page Alerts."
	return string([]rune(text)[:most-utf8.RuneCountInString(rest)]) + rest
}

// smtp is smtp://user:password@host:port/?from=…&to=…; smtps uses TLS from the start.
func smtp(t target) (func(*httpClient) sender, error) {
	u, from, to, open := *t.url, "", "", false
	open2 := outbox.NewMailServer
	for key, values := range u.Query() {
		value := values[0]
		switch strings.ToLower(key) {
		case "from", "fromaddress":
			from = value
		case "to", "toaddresses":
			to = value
		case "requirestarttls", "starttls":
			if open = value == "no"; open {
				open2 = outbox.NewLenientMailServer
			}
		default:
			return nil, advice("an email address takes from=, to= and requirestarttls= only")
		}
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, advice("only ?from=…&to=… may follow the host")
	}
	u.Path, u.RawQuery = "", ""
	server, err := open2(u.String(), from)
	if err != nil {
		return nil, err
	}
	if outbox.CheckSender(from) != nil || outbox.CheckSender(to) != nil {
		return nil, advice("from= and to= must be email addresses")
	}
	return func(*httpClient) sender { return emails{server, to, domainOf(from)} }, nil
}

type emails struct {
	server     *outbox.MailServer
	to, domain string
}

func domainOf(address string) string {
	_, domain, _ := strings.Cut(address, "@")
	return strings.Trim(domain, "> ")
}

func (l emails) send(ctx context.Context, m message) error {
	return l.server.Send(ctx, outbox.Email{To: l.to, Subject: m.title, Text: m.body, ID: m.id + "@" + l.domain,
		Urgent: m.urgent})
}

var slackToken = regexp.MustCompile(`^(?:hook:)?([A-Z0-9]{9,})[-/,]([A-Z0-9]{9,})[-/,]([A-Za-z0-9]{24,})$`)

var slackMarks = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack is slack://hook:A-B-C@webhook, or an incoming webhook of Slack, Mattermost or Rocket.Chat: slack+https://….
func slack(t target) (func(*httpClient) sender, error) {
	to, is := t.hookOf()
	if !is {
		user := ""
		if t.url.User != nil {
			user, _ = url.PathUnescape(t.url.User.String())
		}
		token := slackToken.FindStringSubmatch(user)
		if token == nil {
			return nil, advice("must be slack://hook:AAAAAAAAA-BBBBBBBBB-CCCCCCCCCCCCCCCCCCCCCCCC@webhook, or an incoming " +
				"web hook: slack+https://…")
		}
		to = "https://hooks.slack.com/services/" + strings.Join(token[1:], "/")
	}
	return putting(to, func(m message) any {
		return map[string]any{"text": slackMarks.Replace(cut(m.title+"\n"+m.body, 30_000)), "mrkdwn": false,
			"unfurl_links": false, "unfurl_media": false}
	}, nil), nil
}

// discord is discord://TOKEN@ID, or discord+https://….
func discord(t target) (func(*httpClient) sender, error) {
	to, is := t.hookOf()
	if !is {
		if t.url.User == nil || t.url.Host == "" || strings.Trim(t.url.Path, "/") != "" {
			return nil, advice("must be discord://TOKEN@WEBHOOK_ID, or discord+https://…")
		}
		to = "https://discord.com/api/webhooks/" + url.PathEscape(t.url.Host) + "/" + url.PathEscape(t.url.User.Username())
	}
	return putting(to, func(m message) any {
		return map[string]any{
			"embeds":           []any{map[string]string{"title": cut(m.title, 256), "description": cut(m.body, 4096)}},
			"allowed_mentions": map[string]any{"parse": []string{}},
		}
	}, nil), nil
}

var telegramToken = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]{20,}$`)

// telegram is telegram://TOKEN@telegram?chats=ID,@CHANNEL.
func telegram(t target) (func(*httpClient) sender, error) {
	token, query := "", t.url.Query()
	if t.url.User != nil {
		token, _ = url.PathUnescape(t.url.User.String())
	}
	chat := query.Get("chats") + query.Get("channels")
	query.Del("chats")
	query.Del("channels")
	if !telegramToken.MatchString(token) || chat == "" || len(query) > 0 {
		return nil, advice("must be telegram://TOKEN@telegram?chats=ID with the token of a bot")
	}
	return putting("https://api.telegram.org/bot"+token+"/sendMessage", func(m message) any {
		return map[string]any{"chat_id": chat, "text": cut(m.title+"\n\n"+m.body, 4096),
			"link_preview_options": map[string]bool{"is_disabled": true}}
	}, func(body []byte) error {
		var answer struct {
			OK bool `json:"ok"`
		}
		if json.Unmarshal(body, &answer) != nil || !answer.OK {
			return advice("Telegram rejected the message")
		}
		return nil
	}), nil
}

// teams is the URL of a workflow "When a Teams webhook request is received", not of a connector: teams+https://….
func teams(t target) (func(*httpClient) sender, error) {
	to, is := t.hookOf()
	if !is {
		return nil, advice("must be the URL of a Teams workflow for web hooks: teams+https://… (connectors no longer " +
			"work)")
	}
	block := func(text string, more ...string) map[string]any {
		one := map[string]any{"type": "TextBlock", "wrap": true, "text": text}
		for _, key := range more {
			one["weight"] = key
		}
		return one
	}
	return putting(to, func(m message) any {
		return map[string]any{"type": "message", "attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content": map[string]any{
				"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
				"body": []any{block(m.title, "Bolder"), block(strings.ReplaceAll(cut(m.body, 15_000), "\n", "\n\n"))},
			},
		}}}
	}, nil), nil
}

var ntfyPriorities = map[string]int{"min": 1, "low": 2, "default": 3, "high": 4, "max": 5, "urgent": 5}

// ntfy is ntfy://user:password@host/topic?priority=low&tags=a,b; the priority is that of messages that are not urgent.
// Messages go as JSON, so no text can inject a header.
func ntfy(t target) (func(*httpClient) sender, error) {
	topic, to := strings.Trim(t.url.Path, "/"), url.URL{Scheme: "https", Host: t.url.Host, Path: "/"}
	priority, tags := 3, []string(nil)
	for key, values := range t.url.Query() {
		switch value := values[0]; strings.ToLower(key) {
		case "scheme":
			to.Scheme = value
		case "disabletls":
			if value == "yes" || value == "true" {
				to.Scheme = "http"
			}
		case "priority":
			n, err := strconv.Atoi(value)
			if priority = n; err != nil {
				priority = ntfyPriorities[value]
			}
		case "tags":
			tags = strings.Split(value, ",")
		default:
			return nil, advice("an ntfy address takes priority=, tags= and scheme= only")
		}
	}
	if topic == "" || strings.Contains(topic, "/") || to.Host == "" || priority < 1 || priority > 5 ||
		to.Scheme != "https" && to.Scheme != "http" {
		return nil, advice("must be ntfy://ntfy.sh/TOPIC, optionally with ?priority= from min to max")
	}
	header := jsonHeader()
	if t.url.User != nil {
		password, _ := t.url.User.Password()
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(t.url.User.Username()+":"+password)))
	}
	return func(c *httpClient) sender {
		return over{c, func(m message) (call, error) {
			of := priority
			if m.urgent {
				of = ntfyPriorities["urgent"]
			}
			body, err := json.Marshal(map[string]any{"topic": topic, "title": m.title, "message": cut(m.body, 1300),
				"priority": of, "tags": tags})
			return call{to.String(), header.Clone(), body, nil}, err
		}}
	}, nil
}

// generic is an unsigned webhook: {"title", "message", "urgent"} with ?template=json, else only the text. Parameters
// with an @ are headers; the receiver gets all others.
func generic(t target) (func(*httpClient) sender, error) {
	if !strings.Contains(t.url.Scheme, "+") {
		u := *t.url
		u.Scheme, t.url = "generic+https", &u
	}
	query, header, asJSON := t.url.Query(), http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, false
	for key, values := range query {
		name, isHeader := strings.CutPrefix(key, "@")
		switch {
		case isHeader:
			header.Set(name, values[0])
		case strings.EqualFold(key, "template"):
			if asJSON = strings.EqualFold(values[0], "json"); !asJSON {
				return nil, advice("template= must be json")
			}
			header.Set("Content-Type", "application/json")
		case strings.EqualFold(key, "contenttype"), strings.EqualFold(key, "disabletls"), strings.EqualFold(key, "method"),
			strings.EqualFold(key, "messagekey"),
			strings.EqualFold(key, "titlekey"), strings.HasPrefix(key, "$"):
			return nil, advice("a generic web hook takes template=json and headers such as @Authorization= only")
		default:
			continue
		}
		query.Del(key)
	}
	u := *t.url
	u.RawQuery, t.url = query.Encode(), &u
	to, is := t.hookOf()
	if !is {
		return nil, advice("must be generic+https://…")
	}
	return func(c *httpClient) sender {
		return over{c, func(m message) (call, error) {
			body := []byte(m.body)
			if asJSON {
				body, _ = json.Marshal(map[string]any{"title": m.title, "message": m.body, "urgent": m.urgent})
			}
			return call{to, header.Clone(), body, nil}, nil
		}}
	}, nil
}

// A hookBody is the body of a signed webhook (Standard Webhooks specification).
type hookBody struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // when the message was created
	Data      hookData  `json:"data"`
}

type hookData struct {
	Title   string       `json:"title"`
	Message string       `json:"message"`
	Urgent  bool         `json:"urgent"`
	Alerts  []Alert      `json:"alerts"`
	More    map[Kind]int `json:"more,omitempty"` // number of further alerts by kind
}

// webhook is signed after Standard Webhooks v1: webhook+https://…#secret=whsec_….
func webhook(t target) (func(*httpClient) sender, error) {
	to, is := t.hookOf()
	if !is {
		return nil, advice("must be webhook+https://…#secret=whsec_…")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(t.secret, "whsec_"))
	if err != nil || !strings.HasPrefix(t.secret, "whsec_") || len(key) < 24 || len(key) > 64 {
		return nil, advice("needs #secret=whsec_ and 24 to 64 random bytes in base64: echo whsec_$(openssl rand " +
			"-base64 32)")
	}
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, err
	}
	return func(c *httpClient) sender {
		return over{c, func(m message) (call, error) {
			body, err := json.Marshal(hookBody{"authguard.alerts", m.at, hookData{m.title, m.body, m.urgent,
				slices.Concat([]Alert{}, m.what.Kept), m.what.Counted}})
			if err != nil {
				return call{}, err
			}
			// The ID is the same for every try. The time is that of this try: a receiver would reject an old one as a replay.
			now, header := time.Now(), jsonHeader()
			signature, err := signer.Sign(m.id, now, body)
			header.Set(standardwebhooks.HeaderWebhookID, m.id)
			header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
			header.Set(standardwebhooks.HeaderWebhookSignature, signature)
			return call{to, header, body, nil}, err
		}}
	}, nil
}
