// Express with its body-parser: JSON in UTF-7, UTF-16 and UTF-32, and compressed bodies.
const express = require('express');
const fs = require('fs');
const app = express();

app.get('/', (_, res) => res.send('Welcome'));
app.post('/:place/upload', express.raw({type: () => true, limit: '8mb'}), (req, res) => {
  const head = req.body.indexOf('\r\n\r\n') + 4;
  res.send(String(req.body.indexOf('\r\n--XyZ', head) - head));
});
app.all('/:place/form', express.json(), express.urlencoded({extended: true}), (req, res) => {
  const {username, password} = req.body || {};
  if (typeof username !== 'string' || typeof password !== 'string') {
    return res.status(400).send('no login');
  }
  fs.appendFileSync('{{guesses}}', `${username} ${password}\n`);
  if (username === '{{user}}' && password === '{{password}}') {
    return res.redirect(302, '/account/home');
  }
  return res.status(401).send('wrong');
});
app.listen(Number(process.argv[2]), '127.0.0.1');
